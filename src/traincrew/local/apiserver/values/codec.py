"""JSON bodies: decode, encode, clone, and find duplicate keys."""

from __future__ import annotations

import json
from typing import Any

import msgspec

__all__ = [
    "MAX_FAULTS",
    "DecodeError",
    "Faults",
    "clone",
    "decode",
    "duplicate_fields",
    "encode",
    "encode_sorted",
    "mentions",
    "most_mentions",
]

MAX_FAULTS = 100
"""Errors of strict field validation that a response names; upstream's limit (sigs.k8s.io/json)."""

encode = msgspec.json.Encoder().encode
encode_sorted = msgspec.json.Encoder(order="sorted").encode
"""Equal documents have equal encodings."""
_decode = msgspec.json.Decoder().decode


class DecodeError(ValueError):
    """The body does not have the announced format; the message contains the position."""


def decode(data: bytes) -> Any:
    """Decode JSON.

    Raises:
        DecodeError: the bytes are not JSON.
    """
    try:
        return _decode(data)
    except msgspec.DecodeError as error:
        raise DecodeError(str(error)) from None
    except (UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(f"invalid JSON: {error}") from None


def clone(document: Any) -> Any:
    """Copy a JSON document; ten times faster than ``copy.deepcopy``."""
    return _decode(encode(document))


def mentions(document: Any, key: str) -> bool:
    """Return whether some object in a document may have a key; false is certain.

    It is looked for in the document's text, twenty times as fast as in its objects.
    """
    return most_mentions(document, key) > 0


def most_mentions(document: Any, key: str) -> int:
    """Return how many objects in a document have a key, or more; see `mentions`."""
    return encode(document).count(b'"%s":' % key.encode())


class Faults(list[str]):
    """The errors of strict decoding, at most `MAX_FAULTS`: the duplicate keys of a document."""

    pairs: Any = None
    """A JSON document that has duplicate keys, its objects as lists of keys and values."""

    def with_unknown(self, unknown: list[str]) -> list[str]:
        """Return these errors and those of fields the schema does not know, in document order.

        Args:
            unknown: paths of the unknown fields.
        """
        if self.pairs is not None and unknown:
            return _faults(self.pairs, set(unknown))
        return [*self, *(f'unknown field "{path}"' for path in unknown[:MAX_FAULTS])]


def duplicate_fields(data: bytes, document: Any) -> Faults:
    """Return the errors for the duplicate keys in a JSON body.

    Args:
        data: the body.
        document: the body, decoded by ``decode``.
    """
    # A duplicate key is lost in decoding, so encoding again yields fewer `":`. Bodies that differ
    # for another reason (spaces before colons) only take the slow path.
    if data.count(b'":') == encode(document).count(b'":'):
        return Faults()
    pairs = json.loads(data, object_pairs_hook=_Pairs)
    found = Faults(_faults(pairs, set()))
    if found:
        found.pairs = pairs
    return found


class _Pairs(list[tuple[str, Any]]):
    """A JSON object as the list of its keys and values, duplicates included."""


def _faults(document: Any, unknown: set[str]) -> list[str]:
    found: dict[str, None] = {}
    if isinstance(document, list):
        _read(document, "", unknown, found)
    return list(found)[:MAX_FAULTS]


def _read(value: list[Any], path: str, unknown: set[str], found: dict[str, None]) -> None:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, item in value:
            if len(found) >= MAX_FAULTS:
                return
            here = f"{path}.{key}" if path else key
            if key in seen:
                found[f'duplicate field "{here}"'] = None
            seen.add(key)
            if here in unknown:
                found[f'unknown field "{here}"'] = None
            elif isinstance(item, list):
                _read(item, here, unknown, found)
    else:
        for index, item in enumerate(value):
            if isinstance(item, list):
                _read(item, f"{path}[{index}]", unknown, found)
