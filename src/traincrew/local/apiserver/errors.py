"""Refusals: what the API answers instead of an object, in the words kubectl users know."""

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
    """A refusal with the fields of a ``metav1.Status``.

    Attributes:
        code: HTTP status code.
        reason: machine word such as ``NotFound``.
        message: what a person reads.
        details: name, group, kind, uid, causes, retryAfterSeconds.
        metadata: list metadata; only an expired continue token has something here.
        empty_details: whether the answer has details that say nothing.
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
        """The answer's body."""
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
    """A resource as messages name it: ``jobs.batch``, ``pods``."""
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
    """What DELETE answers when the object is gone."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": _details(group, kind, name) | {"uid": uid},
    }


def bad_request(message: str) -> StatusError:
    """400: the request itself makes no sense."""
    return StatusError(400, "BadRequest", message)


def unauthorized() -> StatusError:
    """401, which says nothing about what would have been right."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def forbidden(plural: str, group: str, name: str, why: str) -> StatusError:
    """403: policy, not credentials."""
    who = f'{qualified(plural, group)} "{name}"' if name else qualified(plural, group)
    return StatusError(
        403, "Forbidden", f"{who} is forbidden: {why}", _details(group, plural, name)
    )


def not_found(plural: str, group: str, name: str) -> StatusError:
    """404 for an object."""
    return StatusError(
        404,
        "NotFound",
        f'{qualified(plural, group)} "{name}" not found',
        _details(group, plural, name),
    )


def no_such_path() -> StatusError:
    """404 for a path that serves nothing."""
    return StatusError(404, "NotFound", "the server could not find the requested resource")


def method_not_allowed(plural: str, group: str, verb: str) -> StatusError:
    """405: the resource exists, the verb does not."""
    return StatusError(
        405,
        "MethodNotAllowed",
        f'{verb} is not supported on resources of kind "{qualified(plural, group)}"',
        _details(group, plural),
    )


def not_acceptable(accepted: Iterable[str]) -> StatusError:
    """406: none of the wanted representations exists."""
    return StatusError(
        406,
        "NotAcceptable",
        "only the following media types are accepted: " + ", ".join(accepted),
    )


def already_exists(plural: str, group: str, name: str, *, deleting: bool = False) -> StatusError:
    """409 on create."""
    prefix = "object is being deleted: " if deleting else ""
    return StatusError(
        409,
        "AlreadyExists",
        f'{prefix}{qualified(plural, group)} "{name}" already exists',
        _details(group, plural, name),
    )


def conflict(plural: str, group: str, name: str, why: str = MODIFIED) -> StatusError:
    """409 on update."""
    return StatusError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {qualified(plural, group)} "{name}": {why}',
        _details(group, plural, name),
    )


def expired(message: str, metadata: Mapping[str, Any] | None = None) -> StatusError:
    """410: the wanted past is no longer remembered; list again."""
    return StatusError(410, "Expired", message, None, metadata)


def unsupported_media_type(accepted: Sequence[str]) -> StatusError:
    """415: the body's Content-Type is not understood."""
    return StatusError(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted),
    )


def invalid(group: str, kind: str, name: str, causes: Sequence[Cause]) -> StatusError:
    """422: the object breaks rules; every broken rule is a cause."""
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
    """500: the server's own fault."""
    return StatusError(
        500,
        "InternalError",
        f"Internal error occurred: {message}",
        {"causes": [{"message": message}]},
    )
