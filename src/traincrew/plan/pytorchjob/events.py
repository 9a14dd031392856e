"""Reasons and events of a PyTorchJob, in the words of training-operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.api.kinds.pytorchjob.types import KIND, REASONS
from traincrew.api.reasons import Cause
from traincrew.plan.pytorchjob.observed import NAMED
from traincrew.plan.shared.replicas import reports

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traincrew.api.kinds.pytorchjob.types import PyTorchJobSpec
    from traincrew.plan.pytorchjob.observed import ObservedJob
    from traincrew.plan.shared.kind import Written
    from traincrew.plan.shared.lifecycle import Status
    from traincrew.plan.shared.model import ChildKey, Event
    from traincrew.plan.shared.podrecords import PodRecord

RUNNING = f"{KIND}Running"
RESTARTING = f"{KIND}Restarting"
SUCCEEDED = f"{KIND}Succeeded"
_SUSPENSION = (f"{KIND}Suspended", f"{KIND}Resumed")
_EXPECTED = frozenset({REASONS.word(Cause.PROGRAM)})


def transitions(before: Status, after: Status) -> list[Event]:
    """Return events for conditions that have changed their status."""
    return reports.transitions(before, after, _EXPECTED, _SUSPENSION)


def exits(current: ObservedJob, namespace: str, known: Mapping[str, PodRecord]) -> list[Event]:
    """Return events with the exit codes of pods whose failure is not recorded yet."""
    return reports.exits(current, namespace, known, NAMED)


def replaced_policies(spec: PyTorchJobSpec) -> list[Event]:
    """Warn that the restart policy of the replicas overrides the template's."""
    return [
        event
        for name, replica in sorted(spec.pytorch_replica_specs.items())
        for event in reports.replaced_policy(
            f"spec.pytorchReplicaSpecs.{name}",
            replica.policy,
            replica.template["spec"].get("restartPolicy"),
            "SetPodTemplateRestartPolicy",
        )
    ]


def written(what: Written, keys: Sequence[ChildKey]) -> list[Event]:
    """Return events for children that were created or deleted, or the job that was deleted."""
    return reports.written(KIND, what, keys)
