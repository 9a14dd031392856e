"""Events of an MxJob."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.api.kinds.mxjob.types import KIND
from traincrew.plan.mxjob import children
from traincrew.plan.shared import lifecycle
from traincrew.plan.shared.model import Event

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traincrew.api.kinds.mxjob.types import MxJobSpec
    from traincrew.api.meta import Owner
    from traincrew.plan.shared.kind import Written
    from traincrew.plan.shared.lifecycle import Status
    from traincrew.plan.shared.model import ChildKey

COMPONENT = "mx-job-operator"
"""Source component of the events: the name under which mxnet-operator was deployed."""


def transitions(before: Status, after: Status) -> list[Event]:
    """Return events for conditions that have changed; each restart has an event of its own."""
    found = [
        event
        for event in lifecycle.transition_events(before, after)
        if event.reason != lifecycle.RESTARTING
    ]
    succeeded = after.condition(lifecycle.SUCCEEDED)
    if succeeded is not None and succeeded.is_true and not before.holds(lifecycle.SUCCEEDED):
        found.append(Event("Normal", succeeded.reason, succeeded.message))
    return found


def overridden_variables(owner: Owner, spec: MxJobSpec, runtime_id: str) -> list[Event]:
    """Warn about variables of templates that replace the operator's."""
    return [
        Event(
            "Warning",
            "EnvironmentOverridden",
            f"{path}: {name} is set by the template; the operator's value is not used",
        )
        for path, name in children.overridden(owner, spec, runtime_id)
    ]


def namesakes(name: str, groups: Sequence[str]) -> list[Event]:
    """Warn about jobs of the same name in the kind's other group.

    Their children have other names, so both run; but people and scripts confuse them.
    """
    return [
        Event(
            "Warning",
            "SameName",
            f"{KIND}.{group} {name} is in this namespace as well; both run, each with its own"
            " RuntimeId. To tell them apart, give one of them another name",
        )
        for group in groups
    ]


def written(what: Written, keys: Sequence[ChildKey]) -> list[Event]:
    """Return events for children that were created or deleted, or the job that was deleted."""
    by_kind: dict[str, list[str]] = {}
    for key in keys:
        by_kind.setdefault(key.kind, []).append(key.name)
    found = []
    for kind, names in by_kind.items():
        noun = kind if kind == KIND else kind.lower()
        text = f"{what}d {noun}: {names[0]}"
        if len(names) > 1:
            text = f"{what}d {len(names)} {noun}s: {names[0]} ... {names[-1]}"
        found.append(Event("Normal", f"Successful{what}", text))
    return found
