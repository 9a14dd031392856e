"""JSON bodies: decode, encode, clone, and find duplicate keys."""

from __future__ import annotations

import json
from typing import Any

import msgspec

__all__ = [
    "MAX_FAULTS",
    "DecodeError",
    "clone",
    "decode",
    "duplicate_fields",
    "encode",
    "encode_sorted",
    "in_order",
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


class _Pairs(dict[str, Any]):
    """A JSON object that remembers its duplicate keys."""

    repeated: list[str]


def mentions(document: Any, key: str) -> bool:
    """Return whether some object in a document may have a key; false is certain.

    It is looked for in the document's text, twenty times as fast as in its objects.
    """
    return most_mentions(document, key) > 0


def most_mentions(document: Any, key: str) -> int:
    """Return how many objects in a document have a key, or more; see `mentions`."""
    return encode(document).count(b'"%s":' % key.encode())


def _pairs(items: list[tuple[str, Any]]) -> _Pairs:
    result = _Pairs(items)
    result.repeated = []
    if len(result) != len(items):
        seen: set[str] = set()
        repeated: dict[str, None] = {}
        for key, _ in items:
            if key in seen:
                repeated[key] = None
            seen.add(key)
        result.repeated = list(repeated)
    return result


def _walk(document: Any, path: str, found: list[str]) -> None:
    if len(found) >= MAX_FAULTS:
        return
    if isinstance(document, _Pairs):
        prefix = f"{path}." if path else ""
        found.extend(prefix + key for key in document.repeated[:MAX_FAULTS])
        for key, value in document.items():
            _walk(value, prefix + key, found)
    elif isinstance(document, list):
        for index, value in enumerate(document):
            _walk(value, f"{path}[{index}]", found)


def duplicate_fields(data: bytes, document: Any) -> list[str]:
    """Return the paths of the duplicate keys in a JSON body, such as ``spec.replicas``.

    At most `MAX_FAULTS`.

    Args:
        data: the body.
        document: the body, decoded by ``decode``.
    """
    # A duplicate key is lost in decoding, so encoding again yields fewer `":`. Bodies that differ
    # for another reason (spaces before colons) only take the slow path.
    if data.count(b'":') == encode(document).count(b'":'):
        return []
    found: list[str] = []
    _walk(json.loads(data, object_pairs_hook=_pairs), "", found)
    return found[:MAX_FAULTS]


def in_order(data: bytes, duplicate: list[str], unknown: list[str]) -> list[str]:
    """Return the errors of strict field validation of a JSON body, in document order.

    At most `MAX_FAULTS`.

    Args:
        data: the body.
        duplicate: paths of the duplicate keys.
        unknown: paths of the fields the schema does not know.
    """
    if not duplicate or not unknown:
        paths = [f'duplicate field "{path}"' for path in duplicate[:MAX_FAULTS]]
        paths += [f'unknown field "{path}"' for path in unknown[:MAX_FAULTS]]
        return paths[:MAX_FAULTS]
    found: dict[str, None] = {}
    _read(json.loads(data, object_pairs_hook=_Listed), "", set(unknown), found)
    return list(found)[:MAX_FAULTS]


class _Listed(list[tuple[str, Any]]):
    """A JSON object as the list of its keys and values, duplicates included."""


def _read(value: Any, path: str, unknown: set[str], found: dict[str, None]) -> None:
    if isinstance(value, _Listed):
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
            else:
                _read(item, here, unknown, found)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _read(item, f"{path}[{index}]", unknown, found)
