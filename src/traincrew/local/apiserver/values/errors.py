"""Error responses of the API (``metav1.Status``), in the words kubectl users know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .causes import Cause

__all__ = [
    "StatusError",
    "already_exists",
    "bad_request",
    "conflict",
    "expired",
    "forbidden",
    "internal",
    "invalid",
    "method_not_allowed",
    "no_such_path",
    "not_acceptable",
    "not_found",
    "qualified",
    "success",
    "unauthorized",
    "unsupported_media_type",
]

MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


class StatusError(Exception):
    """An error response with the fields of a ``metav1.Status``.

    Attributes:
        code: HTTP status code.
        reason: machine-readable reason such as ``NotFound``.
        message: human-readable message.
        details: name, group, kind, uid, causes, retryAfterSeconds.
        metadata: list metadata; only set for an expired continue token.
        empty_details: whether the response has an empty ``details``.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        empty_details: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = dict(details or {})
        self.metadata = dict(metadata or {})
        self.empty_details = empty_details

    def status(self) -> dict[str, Any]:
        """Return the response body."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        }
        if not self.reason:
            del body["reason"]
        if self.details or self.empty_details:
            body["details"] = self.details
        body["code"] = self.code
        return body


def qualified(plural: str, group: str) -> str:
    """Return a resource as messages name it: ``jobs.batch``, ``pods``."""
    return f"{plural}.{group}" if group else plural


def _details(group: str, kind: str, name: str = "") -> dict[str, Any]:
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    return details


def success(group: str, kind: str, name: str, uid: str) -> dict[str, Any]:
    """Return the response to a DELETE that removed the object."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": _details(group, kind, name) | {"uid": uid},
    }


def bad_request(message: str) -> StatusError:
    """Return 400: the request itself is malformed."""
    return StatusError(400, "BadRequest", message)


def unauthorized() -> StatusError:
    """Return 401, without a hint at what would be accepted."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def forbidden(plural: str, group: str, name: str, why: str) -> StatusError:
    """Return 403: policy, not credentials."""
    who = f'{qualified(plural, group)} "{name}"' if name else qualified(plural, group)
    return StatusError(
        403, "Forbidden", f"{who} is forbidden: {why}", _details(group, plural, name)
    )


def not_found(plural: str, group: str, name: str) -> StatusError:
    """Return 404 for an object."""
    return StatusError(
        404,
        "NotFound",
        f'{qualified(plural, group)} "{name}" not found',
        _details(group, plural, name),
    )


def no_such_path() -> StatusError:
    """Return 404 for a path that is not served.

    It has details, though empty ones: ``kubectl debug`` reads them without checking.
    """
    text = "the server could not find the requested resource"
    return StatusError(404, "NotFound", text, empty_details=True)


def method_not_allowed(plural: str, group: str, verb: str) -> StatusError:
    """Return 405: the resource does not support the verb."""
    return StatusError(
        405,
        "MethodNotAllowed",
        f'{verb} is not supported on resources of kind "{qualified(plural, group)}"',
        _details(group, plural),
    )


def not_acceptable(accepted: Iterable[str]) -> StatusError:
    """Return 406: none of the accepted representations is available."""
    return StatusError(
        406,
        "NotAcceptable",
        "only the following media types are accepted: " + ", ".join(accepted),
    )


def already_exists(plural: str, group: str, name: str, *, deleting: bool = False) -> StatusError:
    """Return 409 for a create."""
    prefix = "object is being deleted: " if deleting else ""
    return StatusError(
        409,
        "AlreadyExists",
        f'{prefix}{qualified(plural, group)} "{name}" already exists',
        _details(group, plural, name),
    )


def conflict(plural: str, group: str, name: str, why: str = MODIFIED) -> StatusError:
    """Return 409 for an update."""
    return StatusError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {qualified(plural, group)} "{name}": {why}',
        _details(group, plural, name),
    )


def expired(message: str, metadata: Mapping[str, Any] | None = None) -> StatusError:
    """Return 410: the requested resourceVersion is too old; the client has to list again."""
    return StatusError(410, "Expired", message, None, metadata)


def unsupported_media_type(accepted: Sequence[str]) -> StatusError:
    """Return 415: the body's Content-Type is not supported."""
    return StatusError(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted),
    )


def invalid(group: str, kind: str, name: str, causes: Sequence[Cause]) -> StatusError:
    """Return 422: the object is invalid; every broken rule is a cause."""
    texts = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details = _details(group, kind, name)
    details["causes"] = [
        {"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes
    ]
    return StatusError(
        422, "Invalid", f'{qualified(kind, group)} "{name}" is invalid: {text}', details
    )


def internal(message: str) -> StatusError:
    """Return 500: an internal error."""
    return StatusError(
        500,
        "InternalError",
        f"Internal error occurred: {message}",
        {"causes": [{"message": message}]},
    )
