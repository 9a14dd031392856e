"""Rules for conditions of the common type, ``metav1.Condition``.

Rules and messages: ``ValidateConditions`` in apimachinery's ``pkg/apis/meta/v1/validation``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.names import qualified_name_faults

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["changed_conditions"]

_STATUSES = ("False", "True", "Unknown")
_REASON = re.compile(r"[A-Za-z](?:[A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_REASON_TEXT = (
    "a condition reason must start with alphabetic character, optionally followed by a string of"
    " alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'"
    " (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB',"
    " regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"
)
_MAX_REASON, _MAX_MESSAGE = 1024, 32768


def changed_conditions(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate the conditions of an object, if they are not the stored ones.

    Args:
        found: What is wrong is appended.
        obj: The object.
        old: The stored one; None for a new object, which has no status yet.
    """
    conditions = items(field(obj, "status"), "conditions")
    if old is None or conditions == items(field(old, "status"), "conditions"):
        return
    types: set[str] = set()
    for index, condition in enumerate(conditions):
        path = f"status.conditions[{index}]"
        kind = condition.get("type", "")
        if kind in types:
            found.append(why.duplicate(f"{path}.type", kind))
        types.add(kind)
        _condition(found, condition, path)


def _condition(found: list[Cause], condition: Document, path: str) -> None:
    kind, status = condition.get("type", ""), condition.get("status", "")
    reason, message = condition.get("reason", ""), condition.get("message", "")
    found.extend(why.invalid(f"{path}.type", kind, fault) for fault in qualified_name_faults(kind))
    if status not in _STATUSES:
        found.append(why.not_supported(f"{path}.status", status, _STATUSES))
    if (generation := condition.get("observedGeneration") or 0) < 0:
        detail = "must be greater than or equal to zero"
        found.append(why.invalid(f"{path}.observedGeneration", generation, detail))
    if not condition.get("lastTransitionTime"):
        found.append(why.required(f"{path}.lastTransitionTime"))
    if not reason:
        found.append(why.required(f"{path}.reason"))
    elif len(reason.encode()) > _MAX_REASON:
        found.append(why.too_long(f"{path}.reason", _MAX_REASON))
    elif not _REASON.fullmatch(reason):
        found.append(why.invalid(f"{path}.reason", reason, _REASON_TEXT))
    if len(message.encode()) > _MAX_MESSAGE:
        found.append(why.too_long(f"{path}.message", _MAX_MESSAGE))
