"""The conditions of a CustomResourceDefinition, and the finalizer that protects its objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["DEFINITIONS", "FINALIZER", "has_condition", "mark_terminating", "set_condition"]

DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
FINALIZER = "customresourcecleanup.apiextensions.k8s.io"


def set_condition(
    definition: Document, kind: str, value: str, why: tuple[str, str], now: str
) -> None:
    """Set a condition with `why` (reason, message); a changed value updates the transition time."""
    conditions = definition.setdefault("status", {}).setdefault("conditions", [])
    # A client may have written conditions without any of these fields.
    condition = next((each for each in conditions if each.get("type") == kind), None)
    if condition is None:
        condition = {"type": kind, "status": "", "lastTransitionTime": now}
        conditions.append(condition)
    if condition.get("status") != value:
        condition["lastTransitionTime"] = now
    condition |= {"status": value, "reason": why[0], "message": why[1]}


def mark_terminating(definition: Document, now: str) -> None:
    """Add the finalizer and the condition Terminating: its objects have to be deleted first."""
    finalizers = definition["metadata"].setdefault("finalizers", [])
    if FINALIZER not in finalizers:
        finalizers.append(FINALIZER)
    set_condition(
        definition,
        "Terminating",
        "True",
        (
            "InstanceDeletionPending",
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        ),
        now,
    )


def has_condition(definition: Document, kind: str) -> bool:
    """Return whether a condition is present and true."""
    return any(
        condition.get("type") == kind and condition.get("status") == "True"
        for condition in definition.get("status", {}).get("conditions") or ()
    )
