"""JSON bodies: decode, encode, clone, and find duplicate keys."""

from __future__ import annotations

import json
from typing import Any

import msgspec

__all__ = ["DecodeError", "clone", "decode", "duplicate_fields", "encode", "in_order"]

encode = msgspec.json.Encoder().encode
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


def _pairs(items: list[tuple[str, Any]]) -> _Pairs:
    result = _Pairs(items)
    result.repeated = []
    if len(result) != len(items):
        seen: set[str] = set()
        for key, _ in items:
            if key in seen and key not in result.repeated:
                result.repeated.append(key)
            seen.add(key)
    return result


def _walk(document: Any, path: str, found: list[str]) -> None:
    if isinstance(document, _Pairs):
        prefix = f"{path}." if path else ""
        found.extend(prefix + key for key in document.repeated)
        for key, value in document.items():
            _walk(value, prefix + key, found)
    elif isinstance(document, list):
        for index, value in enumerate(document):
            _walk(value, f"{path}[{index}]", found)


def duplicate_fields(data: bytes, document: Any) -> list[str]:
    """Return the paths of the duplicate keys in a JSON body, such as ``spec.replicas``.

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
    return found


def in_order(data: bytes, duplicate: list[str], unknown: list[str]) -> list[str]:
    """Return the errors of strict field validation of a JSON body, in document order.

    Args:
        data: the body.
        duplicate: paths of the duplicate keys.
        unknown: paths of the fields the schema does not know.
    """
    if not duplicate or not unknown:
        paths = [f'duplicate field "{path}"' for path in duplicate]
        return paths + [f'unknown field "{path}"' for path in unknown]
    found: list[str] = []
    _read(json.loads(data, object_pairs_hook=_Listed), "", set(unknown), found)
    return found


class _Listed(list[tuple[str, Any]]):
    """A JSON object as the list of its keys and values, duplicates included."""


def _read(value: Any, path: str, unknown: set[str], found: list[str]) -> None:
    if isinstance(value, _Listed):
        seen: set[str] = set()
        for key, item in value:
            here = f"{path}.{key}" if path else key
            if key in seen:
                fault = f'duplicate field "{here}"'
                if fault not in found:
                    found.append(fault)
            seen.add(key)
            if here in unknown:
                found.append(f'unknown field "{here}"')
            else:
                _read(item, here, unknown, found)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _read(item, f"{path}[{index}]", unknown, found)
