"""Faults on purpose, and a record of what was asked: for tests of whatever talks to the server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from .errors import StatusError

__all__ = ["Audit", "AuditRecord", "Fault", "FaultHook", "refuse"]


@dataclass(frozen=True, slots=True)
class Fault:
    """What is to go wrong with one request.

    Attributes:
        delay: seconds to wait before anything is done.
        error: refuse with this instead of doing it.
        cut: close the connection without an answer, before or after it was done and stored.
        cut_after_bytes: let so many bytes of a watch or log through, then close the connection.
    """

    delay: float = 0.0
    error: StatusError | None = None
    cut: Literal["before", "after"] | None = None
    cut_after_bytes: int | None = None


FaultHook = Callable[[str, str, str], Fault | None]
"""Called with method, path (without the secret, with the query) and user agent of each request."""


class AuditRecord(NamedTuple):
    """One request that was answered, or cut off (code 0)."""

    method: str
    path: str
    user_agent: str
    code: int


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
    """A fault that answers with an HTTP status code.

    Args:
        code: such as 409, 410, 429, 500.
        message: of the Status.
        retry_after: seconds, sent as ``Retry-After`` too.
    """
    details = {} if retry_after is None else {"retryAfterSeconds": retry_after}
    return Fault(error=StatusError(code, _REASONS.get(code, ""), message, details))
