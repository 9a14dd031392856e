"""HTTP responses: documents, errors, warnings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from aiohttp import web

from traincrew.local.apiserver.values.codec import encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traincrew.local.apiserver.values.errors import StatusError

__all__ = ["add_warnings", "document", "failure", "payload", "text"]

# Characters of all warnings of a response, and of each of them once they are more.
_MAX_WARNINGS = 4 * 1024
_MAX_CUT_WARNING = 256

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")

_JSON_HEADERS = {"Content-Type": "application/json", "Cache-Control": "no-cache, private"}


def payload(
    body: bytes, *, code: int = 200, content_type: str = "application/json"
) -> web.Response:
    """Make a response with an encoded body."""
    headers = _JSON_HEADERS
    if content_type != "application/json":
        headers = headers | {"Content-Type": content_type}
    return web.Response(body=body, status=code, headers=headers)


def document(
    content: Any, *, code: int = 200, content_type: str = "application/json"
) -> web.Response:
    """Make a response with a JSON document."""
    return payload(encode(content), code=code, content_type=content_type)


def text(content: str, *, code: int = 200) -> web.Response:
    """Make a plain text response."""
    return web.Response(text=content, status=code)


def failure(error: StatusError) -> web.Response:
    """Make a Status response, with Retry-After if the error has a retry delay."""
    response = document(error.status(), code=error.code)
    seconds = error.details.get("retryAfterSeconds")
    if seconds is not None:
        response.headers["Retry-After"] = str(seconds)
    return response


def add_warnings(response: web.StreamResponse, warnings: Sequence[str]) -> None:
    """Add a Warning header (RFC 7234, code 299) for each text.

    With more than `_MAX_WARNINGS` characters in all, each text is cut, and the last ones are left
    out, as upstream does (``filters/warning.go``).
    """
    if not warnings:
        return
    texts = list(dict.fromkeys(warnings))
    if sum(map(len, texts)) > _MAX_WARNINGS:
        texts = [text[:_MAX_CUT_WARNING] for text in texts]
    written = 0
    for text in texts:
        if written >= _MAX_WARNINGS:
            return
        written += len(text)
        line = _CONTROL.sub(" ", text).replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{line}"')
