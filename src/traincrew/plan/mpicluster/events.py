"""Events of an MPICluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.api.kinds.mpicluster.types import KIND
from traincrew.plan.shared import lifecycle
from traincrew.plan.shared.model import Event

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.api.kinds.mpicluster.types import MPIClusterSpec
    from traincrew.plan.mpicluster.observed import ObservedCluster
    from traincrew.plan.mpicluster.status import MPIClusterStatus

COMPONENT = "mpi-cluster-controller"
"""Source component of the events."""
SYNCED = Event("Normal", "Synced", f"{KIND} synced successfully")


def transitions(before: MPIClusterStatus, after: MPIClusterStatus) -> list[Event]:
    """Return events for conditions that have changed."""
    found = lifecycle.transition_events(before, after)
    for kind in (lifecycle.RUNNING, lifecycle.SUCCEEDED):
        condition = after.condition(kind)
        if condition is not None and condition.is_true and not before.holds(kind):
            found.append(Event("Normal", condition.reason, condition.message))
    return [*found, *_rotation(before, after)]


def _rotation(before: MPIClusterStatus, after: MPIClusterStatus) -> Iterator[Event]:
    """Yield the event for a step of a rotation of the ssh keys."""
    generation = after.ssh_key_generation
    if generation > before.ssh_key_generation > 0:
        text = f"the pods get key pair {generation}, and still accept the one before it"
        yield Event("Normal", "KeysRotating", f"The ssh keys are rotated: {text}")
    elif generation and before.ssh_key_rotation_time and not after.ssh_key_rotation_time:
        text = f"The ssh keys are rotated: the pods accept only key pair {generation}"
        yield Event("Normal", "KeysRotated", text)


def on_spec_change(current: ObservedCluster, spec: MPIClusterSpec) -> list[Event]:
    """Return events for a spec that has just taken effect, and for what of it has not."""
    return [SYNCED, *_without_effect(current, spec)]


def _without_effect(current: ObservedCluster, spec: MPIClusterSpec) -> Iterator[Event]:
    pod = current.master
    if pod is not None and current.has_another_template:
        text = (
            "spec.master, spec.codeSync: changes have no effect on a master that exists;"
            f" delete pod {pod.metadata.name}, or suspend and resume the {KIND}"
        )
        yield Event("Warning", "MasterUnchanged", text)
    used = current.stored.ssh_key_secret_name
    if used and used != (spec.ssh.key_secret_name or current.names.ssh_key):
        text = (
            f"spec.ssh.keySecretName: the pods keep the keys of {used}, because all of them need"
            f" the same ones; suspend and resume the {KIND}"
        )
        yield Event("Warning", "KeysUnchanged", text)
