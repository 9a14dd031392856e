"""Validation errors of fields (causes), in the words of the Kubernetes API.

The reasons are ``metav1.CauseType`` values, the messages those of
``k8s.io/apimachinery/pkg/util/validation/field``: people search the web for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "MAX_CAUSES",
    "Cause",
    "Causes",
    "EnoughCausesError",
    "duplicate",
    "forbidden",
    "internal",
    "invalid",
    "not_found",
    "not_supported",
    "quote",
    "required",
    "show",
    "too_long",
    "too_many",
    "type_invalid",
]

_encode = msgspec.json.Encoder().encode


class Cause(msgspec.Struct, frozen=True):
    """One broken rule.

    Attributes:
        reason: machine-readable reason, such as ``FieldValueInvalid``.
        message: the error without the field: ``Invalid value: 0: must be positive``.
        field: path of the field, such as ``spec.containers[0].name``.
    """

    reason: str
    message: str
    field: str


MAX_CAUSES = 1_000
_MAX_TEXT = 512 * 1024  # characters of all messages together, except the last one


class EnoughCausesError(Exception):
    """More broken rules than a response names.

    Attributes:
        found: those that it names, and one that says that there are more.
    """

    def __init__(self, found: list[Cause]) -> None:
        super().__init__("too many errors")
        text = "Too many errors: further ones are not shown"
        self.found = [*found, Cause("FieldValueInvalid", text, "<nil>")]


class Causes(list[Cause]):
    """Causes of one response, which has a limit: each item of a body may break several rules.

    Raises:
        EnoughCausesError: with the first cause beyond the limit.
    """

    def __init__(self) -> None:
        super().__init__()
        self._size = 0

    def append(self, cause: Cause) -> None:
        """Add a cause."""
        if len(self) >= MAX_CAUSES or self._size > _MAX_TEXT:
            raise EnoughCausesError(self)
        self._size += len(cause.message)
        super().append(cause)

    def extend(self, causes: Iterable[Cause]) -> None:
        """Add causes."""
        for cause in causes:
            self.append(cause)

    def __iadd__(self, causes: Iterable[Cause]) -> Self:  # type: ignore[override, misc]
        """Add causes."""
        self.extend(causes)
        return self


def quote(text: str) -> str:
    """Return the text in double quotes, escaped."""
    return _encode(text).decode()


def show(value: Any) -> str:
    """Return a value as messages print it: strings quoted, numbers plain, the rest as JSON."""
    if type(value) is dict and all(type(item) is str for item in value.values()):
        value = dict(sorted(value.items()))  # as labels are shown
    text = _encode(value).decode()
    if type(value) is str or not _MARKUP & set(text):
        return text
    for sign in _MARKUP:
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


# Go's encoder escapes them, for HTML.
_MARKUP = frozenset("<>&")


def required(field: str, detail: str = "") -> Cause:
    """Return the cause for a required field that is missing or empty."""
    message = f"Required value: {detail}" if detail else "Required value"
    return Cause("FieldValueRequired", message, field)


def invalid(field: str, value: Any, detail: str) -> Cause:
    """Return the cause for a value that breaks a rule."""
    return Cause("FieldValueInvalid", f"Invalid value: {show(value)}: {detail}", field)


def type_invalid(field: str, value: Any, detail: str) -> Cause:
    """Return the cause for a value of the wrong type."""
    return Cause("FieldValueTypeInvalid", f"Invalid value: {show(value)}: {detail}", field)


def not_supported(field: str, value: Any, supported: Iterable[Any]) -> Cause:
    """Return the cause for a value that is not one of the supported ones."""
    values = ", ".join(show(item) for item in supported)
    message = f"Unsupported value: {show(value)}: supported values: {values}"
    return Cause("FieldValueNotSupported", message, field)


def forbidden(field: str, detail: str) -> Cause:
    """Return the cause for a field that must not be set, or not be changed, in this case."""
    return Cause("FieldValueForbidden", f"Forbidden: {detail}", field)


def duplicate(field: str, value: Any) -> Cause:
    """Return the cause for a value that must be unique and is not."""
    return Cause("FieldValueDuplicate", f"Duplicate value: {show(value)}", field)


def not_found(field: str, value: Any) -> Cause:
    """Return the cause for a reference to something that does not exist."""
    return Cause("FieldValueNotFound", f"Not found: {show(value)}", field)


def too_long(field: str, limit: int) -> Cause:
    """Return the cause for a text longer than ``limit`` bytes."""
    unit = "byte" if limit == 1 else "bytes"
    return Cause("FieldValueTooLong", f"Too long: may not be more than {limit} {unit}", field)


def too_many(field: str, actual: int, limit: int) -> Cause:
    """Return the cause for a list of more than ``limit`` items."""
    return Cause("FieldValueTooMany", f"Too many: {actual}: must have at most {limit} items", field)


def internal(field: str, detail: str) -> Cause:
    """Return the cause for a value that the server could not check."""
    return Cause("InternalError", f"Internal error: {detail}", field)
