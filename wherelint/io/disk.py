"""Plain files: they are read whole, and replaced in one step or not at all. The directory of the cache."""

import errno
import math
import os
import shutil
import stat
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

#: The directory of what is kept between runs. It may have come with another author's tree: what is read from it is
#: only data, and checked by its reader.
CACHE = Path(".wherelint_cache")
_TAG = b"Signature: 8a477f597d28d172789f06886806bc55\n# wherelint keeps here what it would find again.\n"


def project_root(directory: Path) -> Path | None:
    """The nearest directory upward that is the root of a repository or has a configuration."""
    return next((at for at in (directory, *directory.parents) if is_project_root(at)), None)


def is_project_root(directory: Path) -> bool:
    """Whether a directory is the root of a repository or has a configuration."""
    return (directory / ".git").exists() or (directory / "pyproject.toml").is_file()


def leads_out(path: Path, root: str | Path) -> bool:
    """Whether a path, followed through symbolic links, leaves a directory that is none."""
    return not Path(os.path.realpath(path)).is_relative_to(root)


def digest(content: bytes) -> str:
    """What tells one content of a file from others."""
    return blake2b(content, digest_size=16).hexdigest()


class ChangedError(Exception):
    """Something else has changed the file meanwhile."""


def contents(path: Path, most: float = math.inf) -> bytes:
    """What a plain file contains. Raises OSError where it is something else (a device, a pipe), or too large."""
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(status.st_mode):  # to read it may take for ever
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    if status.st_size > most:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return path.read_bytes()


def replace(path: Path, content: bytes, *, before: bytes | None = None, durable: bool = True) -> None:
    """Give a file other contents; whoever reads it sees either the old ones or the new ones, whatever happens.

    Owner and permissions are kept. Raises OSError; and ChangedError for what is not ``before`` any more. ``durable``:
    not even a power failure loses both.
    """
    temporary = path.parent / f".wherelint-{os.urandom(8).hex()}.tmp"
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        _copy_owner(temporary, path)
        if before is not None and (now := path.read_bytes()) != before:
            if now == content:  # another run was as quick
                return
            raise ChangedError
        os.replace(temporary, path)
    except OSError as error:
        error.filename, error.filename2 = str(path), None  # what it was about
        raise
    finally:
        with suppress(OSError):  # there is none if all went well
            os.unlink(temporary)


def write(path: Path, content: bytes) -> None:
    """Write a file that was named: replace it if that can be done, and it is no pipe, device or link.

    A file that is read-only is refused, and one in a directory that is takes the contents in place.
    """
    plain = path.is_file() and not path.is_symlink() and os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    if os.path.lexists(path) and not plain:
        path.write_bytes(content)
    else:
        replace(path, content)


def _copy_owner(temporary: Path, path: Path) -> None:
    """Give a new file the owner and the permissions of the one that it replaces."""
    try:
        old, new = path.stat(), temporary.stat()
    except FileNotFoundError:
        return
    if hasattr(os, "chown") and (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        with suppress(OSError):  # of another user
            os.chown(temporary, old.st_uid, old.st_gid)
    temporary.chmod(stat.S_IMODE(old.st_mode))


def keep(path: Path, content: bytes) -> None:
    """Write a file in a folder of a cache, if that can be done; a reader sees all of it or nothing.

    A link is not followed, unless it is the path of a cache that was named: another author's tree may have it.
    """
    cache = path.parent.parent
    if path.parent.is_symlink() or (cache == CACHE and cache.is_symlink()):
        return
    with suppress(OSError):
        if not cache.exists():  # git and backups leave it alone
            cache.mkdir(parents=True, exist_ok=True)
            replace(cache / ".gitignore", b"*\n", durable=False)
            replace(cache / "CACHEDIR.TAG", _TAG, durable=False)
        path.parent.mkdir(exist_ok=True)
        replace(path, content, durable=False)


def clean(cache: Path) -> int:
    """Remove a cache that wherelint made, and nothing else; the bytes that it had. Raises OSError."""
    tag = cache / "CACHEDIR.TAG"
    if cache.is_symlink() or not tag.is_file() or tag.read_bytes() != _TAG:
        return 0
    size = sum(path.lstat().st_size for path in cache.rglob("*"))
    shutil.rmtree(cache)
    return size
