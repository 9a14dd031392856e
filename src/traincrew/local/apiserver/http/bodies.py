"""Bodies of authenticated requests: read with a size limit, and decompressed.

The HTTP parser never decompresses: it would do so before authentication, and without a limit. Here
a body is decompressed after its sender has been authenticated, up to the size that a plain body may
have. Upstream reads plain bodies only; gzip and deflate are what HTTP clients offer.
"""

from __future__ import annotations

import asyncio
import zlib
from typing import TYPE_CHECKING

from aiohttp.web import HTTPRequestEntityTooLarge

from traincrew.local.apiserver.requests.negotiation import JSON
from traincrew.local.apiserver.values.errors import StatusError, bad_request

if TYPE_CHECKING:
    from aiohttp import web

__all__ = ["MAX_BODY_BYTES", "as_text", "media_type", "prepared", "read_body", "too_large"]

MAX_BODY_BYTES = 3 * 1024 * 1024
"""Bytes, both as sent and decompressed; upstream's limit (``MaxRequestBodyBytes``)."""

_GZIP = 16 + zlib.MAX_WBITS
_SUPPORTED = "gzip, deflate"


def as_text(header: str) -> str:
    """Return a header, or the target of a request, with a replacement for bytes that are no UTF-8.

    The HTTP parser keeps them as surrogates, which no response can contain.
    """
    if header.isascii():
        return header
    return header.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


async def read_body(request: web.BaseRequest) -> bytes:
    """Read the body of an authenticated request.

    Raises:
        StatusError: 413 for more than `MAX_BODY_BYTES` bytes, as sent or decompressed; 415 for a
            Content-Encoding other than gzip, deflate and identity; 400 when the body does not match
            its Content-Encoding.
    """
    encodings = _encodings(request)
    try:
        body = await request.read() if request.body_exists else b""
    except HTTPRequestEntityTooLarge:
        raise too_large() from None
    return _inflate(body, encodings[0]) if encodings and body else body


async def prepared(body: bytes, *, may_be_json: bool) -> bytes:
    """Return a YAML body; a large one has been read in a thread, while others are served.

    Args:
        body: the body.
        may_be_json: whether it is decoded as JSON if it is JSON.
    """
    from traincrew.local.apiserver.values.yaml import LARGE, prepare

    if len(body) <= LARGE:
        return body
    return await asyncio.to_thread(prepare, body, may_be_json=may_be_json)


def too_large() -> StatusError:
    """Return the error 413: the body is larger than the API server accepts."""
    message = f"Request entity too large: limit is {MAX_BODY_BYTES}"
    return StatusError(413, "RequestEntityTooLarge", message)


def _encodings(request: web.BaseRequest) -> list[str]:
    """Return the content encodings of the body, without ``identity``.

    Raises:
        StatusError: 415 for anything but one layer of gzip or deflate.
    """
    names = ",".join(request.headers.getall("Content-Encoding", [])).lower().split(",")
    encodings = [name for each in names if (name := each.strip()) not in {"", "identity"}]
    if len(encodings) > 1 or not set(encodings) <= {"gzip", "x-gzip", "deflate"}:
        shown = ", ".join(encodings)[:100]
        raise StatusError(
            415,
            "UnsupportedMediaType",
            f"unsupported Content-Encoding {shown!r}: use one of {_SUPPORTED}, or none",
        )
    return encodings


def _inflate(body: bytes, encoding: str) -> bytes:
    if encoding == "deflate":
        # The zlib format (RFC 9110, 8.4.1.2); some clients send a raw deflate stream.
        bits = zlib.MAX_WBITS if body[0] & 0x0F == 8 else -zlib.MAX_WBITS
    else:
        bits = _GZIP
    inflater = zlib.decompressobj(bits)
    try:
        inflated = inflater.decompress(body, MAX_BODY_BYTES + 1)
    except zlib.error as error:
        raise bad_request(f"the body of the request is not {encoding}: {error}") from None
    if len(inflated) > MAX_BODY_BYTES:
        raise too_large()
    if not inflater.eof or inflater.unused_data:
        raise bad_request(f"the body of the request is not one complete {encoding} stream")
    return inflated


def media_type(header: str | None) -> str:
    """Return the media type of a body; JSON without a header.

    Some clients send none (the Python client, Go's scale client). What a web page can send without
    a CORS preflight always has another type, or carries the browser's headers, which are rejected
    before.
    """
    return JSON if header is None else header.partition(";")[0].strip().lower()
