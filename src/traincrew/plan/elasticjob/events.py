"""Events of an ElasticJob, in the words of TorchElastic's controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.api.kinds.elasticjob.types import KIND, REASONS
from traincrew.api.reasons import Cause
from traincrew.plan.elasticjob.observed import NAMED
from traincrew.plan.shared import lifecycle
from traincrew.plan.shared.replicas import reports

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traincrew.api.kinds.elasticjob.types import ElasticJobSpec
    from traincrew.plan.elasticjob.observed import ObservedJob
    from traincrew.plan.shared.kind import Written
    from traincrew.plan.shared.lifecycle import Status
    from traincrew.plan.shared.model import ChildKey, Event
    from traincrew.plan.shared.podrecords import PodRecord

RUNNING = f"{KIND}Running"
RESTARTING = f"{KIND}Restarting"
SUCCEEDED = f"{KIND}Succeeded"
_EXPECTED = {REASONS.word(each) for each in (Cause.PROGRAM, Cause.DEADLINE, Cause.BACKOFF_LIMIT)}
"""Failures that TorchElastic's controller reports; its events of them are Normal."""
COMPONENT = "elastic-job-controller"
"""Source component of the events, as with TorchElastic's controller."""


def transitions(before: Status, after: Status) -> list[Event]:
    """Return events for conditions that have changed their status."""
    return reports.transitions(before, after, _EXPECTED, (lifecycle.SUSPENDED, "Resumed"))


def exits(current: ObservedJob, namespace: str, known: Mapping[str, PodRecord]) -> list[Event]:
    """Return events with the exit codes of pods whose failure is not recorded yet."""
    return reports.exits(current, namespace, known, NAMED)


def replaced_policies(spec: ElasticJobSpec) -> list[Event]:
    """Warn that the restart policy of the replicas overrides the template's."""
    return [
        event
        for name, replica in sorted(spec.replica_specs.items())
        for event in reports.replaced_policy(
            f"spec.replicaSpecs.{name}",
            replica.restart_policy,
            replica.template.get("spec", {}).get("restartPolicy"),
        )
    ]


def written(what: Written, keys: Sequence[ChildKey]) -> list[Event]:
    """Return events for children that were created or deleted, or the job that was deleted."""
    return reports.written(KIND, what, keys)
