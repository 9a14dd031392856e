"""Decoding bytes that others have sent: each refusal is one exception, whatever is wrong.

Decoders raise a RecursionError for deep nesting, a UnicodeDecodeError for what is no UTF-8, and
others of their own. Whoever expects only one of them shows a traceback for the others.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any, TypeVar, overload

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "MAX_DEPTH",
    "MAX_OBJECT_BYTES",
    "MAX_VALUES",
    "UndecodableError",
    "decode_base64",
    "decode_json",
    "decoded",
    "shallow",
]

MAX_VALUES = 50_000
"""Values in one document of others: scalars, lists and objects together."""

MAX_OBJECT_BYTES = 6 * 1024 * 1024
"""Bytes of one document, with all aliases expanded."""

MAX_DEPTH = 250
"""Levels of lists and objects in one document."""

_SEARCHED = 1024 * 1024
"""Bytes up to which the depth of a document is found before it is decoded."""

_T = TypeVar("_T")


class UndecodableError(ValueError):
    """The bytes are not what they should be; the message says where, in one line."""


@overload
def decode_json(data: bytes | str | msgspec.Raw) -> Any: ...
@overload
def decode_json(data: bytes | str | msgspec.Raw, *, type: type[_T]) -> _T: ...
def decode_json(data: bytes | str | msgspec.Raw, *, type: Any = Any) -> Any:  # noqa: A002 - as in msgspec
    """Decode JSON of a type.

    Raises:
        UndecodableError: It is no JSON, not of the type, nested too deeply, or no UTF-8.
    """
    return decoded(_decoder(type), data)


def decoded(decoder: msgspec.json.Decoder[_T], data: bytes | str | msgspec.Raw) -> _T:
    """Decode JSON by a decoder that exists already.

    Raises:
        UndecodableError: As for `decode_json`.
    """
    if _is_deep(data):
        raise UndecodableError("it is nested too deeply")
    try:
        return decoder.decode(data)
    except RecursionError:
        raise UndecodableError("it is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise UndecodableError(f"it is not UTF-8 text (at byte {error.start})") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise UndecodableError(str(error)) from None


def decode_base64(text: str | bytes, *, url: bool = False, padded: bool = True) -> bytes:
    """Decode base64.

    Args:
        text: ASCII.
        url: Whether it has the alphabet of URLs.
        padded: Whether padding has to be there; otherwise it may be.

    Raises:
        UndecodableError: It has other characters, or a wrong length.
    """
    try:
        data = text.encode("ascii") if isinstance(text, str) else text
        if not padded:
            data += b"=" * (-len(data) % 4)
        return base64.b64decode(data, altchars=b"-_" if url else None, validate=True)
    except (UnicodeEncodeError, binascii.Error) as error:
        raise UndecodableError(f"it is not base64: {error}") from None


_ONE_KIND_OF_BRACKET = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))

_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\Z)|[\[\]{}]', re.DOTALL)


def shallow(data: bytes) -> bytes:
    """Return JSON with ``null`` for lists and objects below `MAX_DEPTH` levels.

    For caches: one object of a list that nobody can decode must not hide the others. No field of
    Kubernetes or of a kind of ours is that deep.
    """
    kept: list[bytes] = []
    since = 0
    inside = False
    for level, begins, token in _brackets(data):
        if level == MAX_DEPTH + 1:
            if begins:
                kept += (data[since : token.start()], b"null")
            since, inside = token.end(), begins
    return b"".join(kept) if inside else b"".join((*kept, data[since:]))


def _is_deep(data: bytes | str | msgspec.Raw) -> bool:
    """Return whether JSON has more than `MAX_DEPTH` levels.

    Where decoders give up depends on the version of Python, and what they let through is deeper
    than what our own code can follow. Long texts are answers of an API server; they are left to
    decoders.
    """
    text = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else bytes(data)
    if len(text) > _SEARCHED or text.count(b"[") + text.count(b"{") <= MAX_DEPTH:
        return False
    without_escapes = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    outside_of_texts = b"".join(without_escapes.split(b'"')[::2])
    brackets = outside_of_texts.translate(_ONE_KIND_OF_BRACKET, _NO_BRACKETS)
    for _ in range(MAX_DEPTH):  # each round takes the innermost level out of every branch
        rest = brackets.replace(b"[]", b"")
        if len(rest) == len(brackets):
            break
        brackets = rest
    # What is left is too deep, or no JSON.
    return bool(brackets) and any(level > MAX_DEPTH for level, _, _ in _brackets(text))


def _brackets(data: bytes) -> Iterator[tuple[int, bool, re.Match[bytes]]]:
    """Yield each bracket outside of texts: its level from 1, whether it opens, and where it is."""
    level = 0
    for token in _TOKEN.finditer(data):
        first = token[0][:1]
        if first in b"[{":
            level += 1
            yield level, True, token
        elif first in b"]}":
            yield level, False, token
            level -= 1


_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def _decoder(wanted: Any) -> msgspec.json.Decoder[Any]:
    decoder = _decoders.get(wanted)
    if decoder is None:
        decoder = _decoders[wanted] = msgspec.json.Decoder(wanted)
    return decoder
