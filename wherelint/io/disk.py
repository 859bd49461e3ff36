"""Plain files: they are read whole, and replaced in one step or not at all."""

import errno
import math
import os
import re
import stat
import time
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

#: What a run that was killed may leave behind: no tool takes it for a program, and the next run removes it.
TEMPORARY = re.compile(r"\.wherelint-[0-9a-f]{16}\.tmp")
#: Seconds after which no run is still at work on one.
_STALE = 3600


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
    _remove_stale(path.parent)
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


def _remove_stale(directory: Path) -> None:
    """Remove what runs have left behind that were killed."""
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if TEMPORARY.fullmatch(entry.name) and time.time() - entry.stat(follow_symlinks=False).st_mtime > _STALE:
                os.unlink(entry.path)
