"""wherelint finds the ``where`` that protects the value and poisons the gradient."""

TYPE_CHECKING = False  # nothing is imported here: `python -m wherelint` has yet to mend its path
if TYPE_CHECKING:
    from wherelint.api import check_paths, check_source, fix_source

__all__ = ["__version__", "check_paths", "check_source", "fix_source"]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    # The functions are imported when they are used: `wherelint --version` is not to wait for them.
    if name in __all__:
        from wherelint import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
