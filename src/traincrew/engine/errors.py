"""Errors of requests to an API server."""

from __future__ import annotations

from typing import Any, ClassVar


class ConfigError(ValueError):
    """The configuration cannot be used; the message names the field and the fix."""


class ApiError(Exception):
    """The API server refused a request, or could not be reached.

    Attributes:
        code: HTTP status code; 0 when no response arrived.
        reason: Machine-readable reason of the ``Status`` object, such as ``AlreadyExists``.
        message: The server's explanation, for people.
        details: ``details`` of the ``Status`` object.
        retry_after: Seconds the server asked the client to wait, if it did.
    """

    default_code: ClassVar[int] = 500
    default_reason: ClassVar[str] = "Unknown"
    transient: ClassVar[bool] = False
    """Whether the server is unreachable, failing or busy: the same request may succeed later."""

    def __init__(
        self,
        message: str = "",
        *,
        code: int | None = None,
        reason: str = "",
        details: dict[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        self.code = self.default_code if code is None else code
        self.reason = reason or self.default_reason
        self.message = message or f"the server answered with status {self.code}"
        self.details = details or {}
        self.retry_after = retry_after
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message} ({self.reason}, {self.code})" if self.code else self.message

    @staticmethod
    def from_status(
        code: int, status: dict[str, Any] | None, *, retry_after: float | None = None
    ) -> ApiError:
        """Build the matching subclass from a ``metav1.Status`` object.

        Args:
            code: HTTP status code; for an ERROR watch event the ``code`` of the object.
            status: The decoded body, or ``None`` if it was not a ``Status``.
            retry_after: Seconds from the ``Retry-After`` header.
        """
        status = status or {}
        reason = status.get("reason")
        reason = reason if isinstance(reason, str) else ""
        kind = _BY_REASON.get(reason) or _BY_CODE.get(code)
        if kind is None:
            kind = ServerError if code >= 500 else ApiError
        details = status.get("details")
        details = details if isinstance(details, dict) else {}
        seconds = details.get("retryAfterSeconds")
        if retry_after is None and isinstance(seconds, (int, float)) and seconds > 0:
            retry_after = float(seconds)
        message = status.get("message")
        return kind(
            message if isinstance(message, str) else "",
            code=code,
            reason=reason,
            details=details,
            retry_after=retry_after,
        )


class BadRequestError(ApiError):
    """400: the request could not be understood."""

    default_code = 400
    default_reason = "BadRequest"


class UnauthorizedError(ApiError):
    """401: the credentials were not accepted."""

    default_code = 401
    default_reason = "Unauthorized"


class ForbiddenError(ApiError):
    """403: the credentials are valid, but the request is not allowed."""

    default_code = 403
    default_reason = "Forbidden"


class NotFoundError(ApiError):
    """404: no such object, or no such resource."""

    default_code = 404
    default_reason = "NotFound"

    def is_about(self, name: str) -> bool:
        """Return whether the server reports that the object with this name does not exist.

        A path that is not served (a removed version of a resource, a proxy in between) also gives
        404, which does not mean that the object is gone.
        """
        return self.reason == "NotFound" and self.details.get("name") == name


class ConflictError(ApiError):
    """409: the object changed since it was read, or a field belongs to another manager."""

    default_code = 409
    default_reason = "Conflict"


class AlreadyExistsError(ApiError):
    """409: an object with that name exists."""

    default_code = 409
    default_reason = "AlreadyExists"


class GoneError(ApiError):
    """410: the resourceVersion or continue token is too old."""

    default_code = 410
    default_reason = "Expired"


class InvalidError(ApiError):
    """422: the object violates a validation rule; ``details["causes"]`` names the fields."""

    default_code = 422
    default_reason = "Invalid"


class TooManyRequestsError(ApiError):
    """429: the server sheds load, or a disruption budget forbids an eviction."""

    default_code = 429
    default_reason = "TooManyRequests"
    transient = True


class ServerError(ApiError):
    """5xx: the server failed."""

    default_reason = "InternalError"
    transient = True


class UnreachableError(ApiError):
    """No response: connection refused, reset, name not found, TLS failure or timeout."""

    default_code = 0
    default_reason = "Unreachable"
    transient = True


class BadAnswerError(ApiError):
    """An answer that cannot be used: too large, endless, compressed, or not what was asked for."""

    default_code = 0
    default_reason = "BadAnswer"


def _kinds(*kinds: type[ApiError]) -> tuple[type[ApiError], ...]:
    return kinds


_BY_REASON: dict[str, type[ApiError]] = {
    kind.default_reason: kind
    for kind in _kinds(
        BadRequestError,
        UnauthorizedError,
        ForbiddenError,
        NotFoundError,
        ConflictError,
        AlreadyExistsError,
        GoneError,
        InvalidError,
        TooManyRequestsError,
        ServerError,
    )
} | {"Gone": GoneError, "ServiceUnavailable": ServerError, "Timeout": ServerError}

_BY_CODE: dict[int, type[ApiError]] = {
    kind.default_code: kind
    for kind in _kinds(
        BadRequestError,
        UnauthorizedError,
        ForbiddenError,
        NotFoundError,
        ConflictError,
        GoneError,
        InvalidError,
        TooManyRequestsError,
    )
}


def is_namespace_terminating(error: Exception) -> bool:
    """Return whether a creation failed only because the namespace is terminating."""
    if not isinstance(error, ForbiddenError):
        return False
    causes = error.details.get("causes")
    found = [each for each in causes if isinstance(each, dict)] if isinstance(causes, list) else []
    return any(cause.get("reason") == "NamespaceTerminating" for cause in found) or (
        "because it is being terminated" in error.message
    )
