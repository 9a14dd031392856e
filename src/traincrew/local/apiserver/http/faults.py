"""Fault injection and an audit log, for tests of clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import msgspec

from traincrew.local.apiserver.values.errors import StatusError

__all__ = ["Audit", "AuditRecord", "Fault", "FaultHook", "refuse"]


class Fault(msgspec.Struct, frozen=True):
    """A fault to inject into one request.

    Attributes:
        delay: seconds to wait before the request is processed.
        error: error to send instead of processing the request.
        cut: close the connection without a response, before or after processing the request.
        cut_after_bytes: send this many bytes of a watch or log, then close the connection.
    """

    delay: float = 0.0
    error: StatusError | None = None
    cut: Literal["before", "after"] | None = None
    cut_after_bytes: int | None = None


FaultHook = Callable[[str, str, str], Fault | None]
"""Called with the method, path (with the query) and user agent of each request."""


class AuditRecord(NamedTuple):
    """A finished request.

    Attributes:
        method: upper case.
        path: with the query.
        user_agent: what the client calls itself.
        code: status code; 0 if the connection was cut.
        user: name of the user; empty if the request was not answered by a verb.
        answer: the answer to a write that succeeded, as JSON or YAML; else empty.
    """

    method: str
    path: str
    user_agent: str
    code: int
    user: str = ""
    answer: bytes = b""


Audit = Callable[[AuditRecord], None]

_REASONS = {
    400: "BadRequest",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def refuse(code: int, message: str = "injected fault", *, retry_after: int | None = None) -> Fault:
    """Return a fault that sends an error.

    Args:
        code: HTTP status code, such as 409, 410, 429, 500.
        message: message of the Status.
        retry_after: seconds, also sent as ``Retry-After``.
    """
    details = {} if retry_after is None else {"retryAfterSeconds": retry_after}
    return Fault(error=StatusError(code, _REASONS.get(code, ""), message, details))
