"""Bytes to text and back, as Python reads its sources."""

import ast
import io
import os
import tokenize
import warnings

from wherelint.finding import Location

#: Where a text comes from, as far as Python is told, which opens the file of that name to quote what does not parse:
#: ``<unknown>``, which it would take otherwise, may be a pipe.
NOWHERE = os.devnull


class UndecodableError(Exception):
    """A file that Python could not read either; the message says why."""

    def __init__(self, message: str, location: Location | None = None) -> None:
        super().__init__(message)
        self.location = location


def decode(content: bytes) -> tuple[str, str]:
    """The text as Python reads it, and its encoding: by byte order mark or coding comment, else UTF-8 (PEP 263)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
            except SyntaxError:
                # Either the coding comment is wrong, or the first lines are not UTF-8: then this says where.
                content.decode()
                raise
            text = content.decode(encoding)
    except SyntaxError as error:
        raise UndecodableError(f"cannot decode the file: {error.msg}") from None
    except UnicodeDecodeError as error:
        message = f"cannot decode the file as {error.encoding}: {error.reason}"
        raise UndecodableError(message, _place(content.decode("latin-1"), error.start)) from None
    except Exception as error:
        # A codec may raise anything: hex (to bytes), rot13 (from text), idna, punycode and undefined do.
        raise UndecodableError(f"cannot decode the file: {str(error).partition('; use')[0]}") from None
    if "\0" in text:
        raise UndecodableError("the file contains a null byte", _place(text, text.index("\0")))
    return text, encoding


def encode(text: str, encoding: str, original: bytes) -> bytes | None:
    """A changed text in the encoding of its file; None where the untouched parts would not come back as they were."""
    try:
        if decode(original)[0].encode(encoding) != original:
            return None
        return text.encode(encoding)
    except (UnicodeError, LookupError):
        return None


def parsed(text: str) -> ast.Module:
    """The syntax tree of a text. Python warns of its invalid escapes meanwhile, which is another tool's business."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text, NOWHERE)


def _place(text: str, offset: int) -> Location:
    before = text[:offset].replace("\r\n", "\n").replace("\r", "\n")
    return Location(before.count("\n") + 1, offset - max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)))
