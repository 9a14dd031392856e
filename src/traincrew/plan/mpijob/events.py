"""Events of an MPIJob, in the words of mpi-operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.api.kinds.mpijob.types import KIND
from traincrew.plan.shared import lifecycle
from traincrew.plan.shared.model import Event
from traincrew.plan.shared.replicas import reports

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.api.kinds.mpijob.types import MPIJobSpec
    from traincrew.plan.shared.lifecycle import Status

_SUSPENSION = (f"{KIND}Suspended", f"{KIND}Resumed")


def transitions(before: Status, after: Status, title: str) -> list[Event]:
    """Return events for conditions that have changed their status.

    Args:
        before: The status as stored.
        after: The status now.
        title: The job as messages name it.
    """
    found = [*_beginnings(before, after, title)]
    return [*found, *reports.transitions(before, after, (), _SUSPENSION)]


def _beginnings(before: Status, after: Status, title: str) -> Iterator[Event]:
    for kind, text in ((lifecycle.CREATED, "created"), (lifecycle.RUNNING, "running")):
        if after.holds(kind) and not before.holds(kind):
            yield Event("Normal", f"{KIND}{kind}", f"{title} is {text}.")


def replaced_policies(spec: MPIJobSpec) -> list[Event]:
    """Warn that the restart policy of the launcher overrides its template's."""
    replica = spec.launcher
    return reports.replaced_policy(
        "spec.mpiReplicaSpecs.Launcher",
        replica.restart_policy or "OnFailure",
        replica.template["spec"].get("restartPolicy"),
        "SetPodTemplateRestartPolicy",
    )
