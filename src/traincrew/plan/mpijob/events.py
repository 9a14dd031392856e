"""Events of an MPIJob, in the words of mpi-operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.api.kinds.mpijob.types import KIND, LAUNCHER
from traincrew.plan.shared import lifecycle
from traincrew.plan.shared.model import Event
from traincrew.plan.shared.replicas import reports
from traincrew.plan.shared.replicas.places import Replicas
from traincrew.plan.shared.replicas.reports import Words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.api.kinds.mpijob.types import MPIJobSpec
    from traincrew.plan.shared.lifecycle import Status

WORDS = Words(
    kind=KIND,
    expected=frozenset(),
    suspension=(f"{KIND}Suspended", f"{KIND}Resumed"),
    replaced="SetPodTemplateRestartPolicy",
)


def transitions(before: Status, after: Status, title: str) -> list[Event]:
    """Return events for conditions that have changed their status.

    Args:
        before: The status as stored.
        after: The status now.
        title: The job as messages name it.
    """
    found = [*_beginnings(before, after, title)]
    return [*found, *reports.transitions(before, after, WORDS)]


def _beginnings(before: Status, after: Status, title: str) -> Iterator[Event]:
    for kind, text in ((lifecycle.CREATED, "created"), (lifecycle.RUNNING, "running")):
        if after.holds(kind) and not before.holds(kind):
            yield Event("Normal", f"{KIND}{kind}", f"{title} is {text}.")


def replaced_policies(spec: MPIJobSpec) -> list[Event]:
    """Warn that the restart policy of the launcher overrides its template's."""
    launcher = spec.launcher
    policy = launcher.restart_policy or "OnFailure"
    replicas = {LAUNCHER: Replicas(1, launcher.template, policy)}
    return reports.replaced_policies("spec.mpiReplicaSpecs", replicas, WORDS.replaced)
