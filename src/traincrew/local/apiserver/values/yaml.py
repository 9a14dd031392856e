"""YAML bodies, as Kubernetes reads them. Imported with the first YAML request."""

from __future__ import annotations

from typing import Any

import yaml

from traincrew.engine.yamlreader import NullKeyError, TooLargeError, YamlError, read_all

from . import goformat
from .codec import MAX_FAULTS, DecodeError, decode, duplicate_fields, encode
from .errors import StatusError
from .limits import decode_request, too_many_bytes, too_many_values

__all__ = ["LARGE", "PreparedYaml", "from_yaml", "prepare", "to_yaml"]

LARGE = 8 * 1024
"""Bytes of a body that is read in a thread."""


def to_yaml(document: Any) -> bytes:
    """Encode as YAML, keeping the order of keys."""
    return yaml.safe_dump(document, sort_keys=False, default_flow_style=False).encode()


def _read(data: bytes) -> tuple[Any, list[str]]:
    try:
        found = read_all(data, single=True, most_duplicates=MAX_FAULTS)
    except TooLargeError as error:
        raise too_many_values() if error.values else too_many_bytes() from None
    except NullKeyError as error:
        raise DecodeError(
            "error converting YAML to JSON: unsupported map key of type: %!s(<nil>), key:"
            f" <nil>, value: {goformat.syntax(error.value)[:100]}"
        ) from None
    except YamlError as error:
        raise DecodeError(str(error)) from None
    return (found[0].content, found[0].duplicates) if found else (None, [])


class PreparedYaml(bytes):
    """A YAML body that has been read already.

    Attributes:
        json: the document as JSON.
        duplicates: the duplicate keys.
        error: why it cannot be read.
    """

    json: bytes = b"null"
    duplicates: tuple[str, ...] = ()
    error: Exception | None = None


def prepare(data: bytes, *, may_be_json: bool) -> bytes:
    """Read a YAML body, in a thread: a large one takes a second.

    Args:
        data: the body.
        may_be_json: whether the body is decoded as JSON if it is JSON.

    Returns:
        The same body; `from_yaml` decodes it within milliseconds.
    """
    if may_be_json and data.lstrip()[:1] == b"{":
        try:
            if not duplicate_fields(data, decode_request(data)):
                return data
        except StatusError:
            return data  # too many values
        except DecodeError:
            pass
    prepared = PreparedYaml(data)
    try:
        document, duplicates = _read(data)
        prepared.json = encode(document)
        prepared.duplicates = tuple(duplicates)
    except (DecodeError, StatusError) as error:
        prepared.error = error
    return prepared


def from_yaml(data: bytes) -> tuple[Any, list[str]]:
    """Decode one YAML document; also return the duplicate keys.

    Raises:
        DecodeError: the bytes are not YAML, are nested too deeply, or have too many aliases.
        StatusError: 413 for too many values.
    """
    if not isinstance(data, PreparedYaml):
        return _read(data)
    if data.error is not None:
        raise data.error
    return decode(data.json), list(data.duplicates)
