"""The ssh keys of an MPICluster: which Secret has them, and how they are rotated.

A rotation is two writes of the Secret, each of which may be repeated:

1. The pair of the next generation takes the place of the one before, which stays beside it. Pods
   that have the new Secret use both pairs and accept both, so that it does not matter which pods
   have it already.
2. When all pods have it, the pair before it is removed.

What is stored in between are the generation and the time of the first write.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from traincrew.api.kinds.mpicluster.transport import EXEC
from traincrew.api.meta import format_time, parse_time
from traincrew.plan.mpicluster import children
from traincrew.plan.shared.model import ChildKey, Write

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from traincrew.api.kinds.mpicluster.types import MPIClusterSpec
    from traincrew.api.meta import Owner
    from traincrew.plan.mpicluster.observed import ObservedCluster
    from traincrew.plan.mpicluster.status import MPIClusterStatus
    from traincrew.plan.shared.views import ObservedPod


class Keys(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to the keys in one reconcile.

    Attributes:
        secret: The Secret that all pods use; empty if they need none.
        generation: Its key pair in the status; 0 if the operator has not made it.
        rotation_time: The start of a rotation that is not complete, in the status.
        create: Creates the Secret if it may be missing; comes before the pods.
        change: Rotates the keys; nothing depends on it.
        urgent: Whether the status has to be stored before another plan is made, which would write
            the Secret again.
        seconds: After how many seconds a rotation may be completed; None if a change of the pods is
            waited for, or nothing.
    """

    secret: str
    generation: int = 0
    rotation_time: str | None = None
    create: Write | None = None
    change: Write | None = None
    urgent: bool = False
    seconds: float | None = None

    def stored_in(self, numbers: MPIClusterStatus) -> None:
        """Set in a status what holds once the writes have succeeded."""
        numbers.ssh_key_secret_name = self.secret
        numbers.ssh_key_generation = self.generation
        numbers.ssh_key_rotation_time = self.rotation_time


def secret_name(current: ObservedCluster, spec: MPIClusterSpec) -> str:
    """Return the Secret whose keys all pods use; empty if they need none."""
    if spec.transport == EXEC:
        return ""
    chosen = current.stored.ssh_key_secret_name or spec.ssh.key_secret_name
    return chosen or current.names.ssh_key


def keys(current: ObservedCluster, spec: MPIClusterSpec, owner: Owner, now: datetime) -> Keys:
    """Return what happens to the keys of a cluster that is to run."""
    stored, own = current.stored, current.names.ssh_key
    secret = secret_name(current, spec)
    if secret != own or spec.ssh.key_secret_name == own:
        return Keys(secret=secret)
    generation, since = stored.ssh_key_generation, stored.ssh_key_rotation_time
    wanted = max(spec.ssh.key_generation, generation)
    if since is not None:
        wanted = max(generation, 1)  # pods that are left may have no newer pair than the one before
    if not stored.ssh_key_secret_name:
        # If there is a Secret of an earlier generation, its pair is replaced.
        if wanted > max(generation, 1):
            since = format_time(now)
        elif current.runs_workers_with(own):
            return Keys(secret=own, generation=wanted, rotation_time=since)
        document = children.ssh_key(owner, spec, wanted)
        return Keys(
            secret=own,
            generation=wanted,
            rotation_time=since,
            create=Write(create=document, key_pair=True),
            urgent=since is not None or current.replicas == 0,
        )
    generation = max(generation, 1)
    if since is not None:
        seconds = _seconds_to_wait(current.observed.pods, spec, since, now)
        if seconds is None or seconds > 0:
            return Keys(secret=own, generation=generation, rotation_time=since, seconds=seconds)
        document = children.ssh_key(owner, spec, generation)
        write = Write(create=document, key_pair=True, retires=True)
        return Keys(secret=own, generation=generation, change=write, urgent=True)
    if wanted == generation:
        return Keys(secret=own, generation=generation)
    write = Write(create=children.ssh_key(owner, spec, wanted), key_pair=True)
    since = format_time(now)
    return Keys(secret=own, generation=wanted, rotation_time=since, change=write, urgent=True)


def _seconds_to_wait(
    pods: Iterable[ObservedPod], spec: MPIClusterSpec, since: str, now: datetime
) -> float | None:
    """Return how long a pod may still lack the new keys; None if that is not known.

    A pod that is not ready may be on a node that is not reachable, which does not refresh its
    volumes. Pods that are created later have the new keys from their beginning.
    """
    start = parse_time(since)
    latest = start
    for pod in pods:
        if pod.finished or parse_time(pod.metadata.creation_timestamp) > start:
            continue
        ready = pod.condition("Ready")
        if ready is None or pod.metadata.deletion_timestamp is not None:
            return None
        if ready.last_transition_time is not None:
            latest = max(latest, parse_time(ready.last_transition_time))
    due = latest + timedelta(seconds=spec.ssh.key_overlap_seconds)
    return max(0.0, (due - now).total_seconds())


def secret_key(current: ObservedCluster) -> ChildKey:
    """Return the key of the Secret that the operator makes."""
    return ChildKey("Secret", current.names.ssh_key)


__all__ = ["Keys", "keys", "secret_key", "secret_name"]
