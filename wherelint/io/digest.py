"""What tells one content of a file from others."""

from __future__ import annotations

from hashlib import blake2b


def digest(content: bytes) -> str:
    """The same for the same bytes, and for no others."""
    return blake2b(content, digest_size=16).hexdigest()
