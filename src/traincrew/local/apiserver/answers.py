"""HTTP answers: documents, refusals, warnings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiohttp import web

from .codec import encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .errors import StatusError

__all__ = ["add_warnings", "document", "payload", "refusal", "text"]

_JSON_HEADERS = {"Content-Type": "application/json", "Cache-Control": "no-cache, private"}


def payload(
    body: bytes, *, code: int = 200, content_type: str = "application/json"
) -> web.Response:
    """An answer with an encoded body."""
    headers = _JSON_HEADERS
    if content_type != "application/json":
        headers = headers | {"Content-Type": content_type}
    return web.Response(body=body, status=code, headers=headers)


def document(
    content: Any, *, code: int = 200, content_type: str = "application/json"
) -> web.Response:
    """An answer with a JSON document."""
    return payload(encode(content), code=code, content_type=content_type)


def text(content: str, *, code: int = 200) -> web.Response:
    """An answer for people and health checks."""
    return web.Response(text=content, status=code)


def refusal(error: StatusError) -> web.Response:
    """A Status; tells clients with Retry-After when to come again."""
    response = document(error.status(), code=error.code)
    seconds = error.details.get("retryAfterSeconds")
    if seconds is not None:
        response.headers["Retry-After"] = str(seconds)
    return response


def add_warnings(response: web.StreamResponse, warnings: Sequence[str]) -> None:
    """Add a Warning header (RFC 7234, code 299) for each text."""
    for warning in dict.fromkeys(warnings):
        line = warning.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
        response.headers.add("Warning", f'299 - "{line}"')
