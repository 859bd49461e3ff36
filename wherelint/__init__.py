"""wherelint finds selections (``where``) whose value is right and whose gradient is nan."""

from wherelint.version import __version__

TYPE_CHECKING = False  # nothing else is imported here: `python -m wherelint` has yet to set its path
if TYPE_CHECKING:
    from wherelint.api import check_paths, check_source, fix_source
    from wherelint.watcher.blocks import watch

__all__ = ["__version__", "check_paths", "check_source", "fix_source", "watch"]


def __getattr__(name: str) -> object:
    # The functions are imported when they are used: `wherelint --version` is not to wait for them.
    if name in ("watch", "load_ipython_extension"):  # the latter for `%load_ext wherelint`
        from wherelint.watcher import blocks

        return getattr(blocks, name)
    if name in __all__:
        from wherelint import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
