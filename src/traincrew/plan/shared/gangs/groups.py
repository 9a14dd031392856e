"""What the group object of a job must be, and what has to be done for that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.plan.shared import schedulers
from traincrew.plan.shared.model import FINGERPRINT, ChildKey, GroupWrite, Patch, Write
from traincrew.plan.shared.writes import digest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traincrew.api.meta import Owner
    from traincrew.api.runpolicy import SchedulingPolicy
    from traincrew.plan.shared.schedulers import Gang, Served
    from traincrew.plan.shared.views import PodGroupView

_MAX_NAME = 63
"""The name is the value of a label of pods."""


def name_of(owner: Owner, engine: str) -> str:
    """Return the name of the PodGroup of a job; other kinds may have jobs of the same name.

    So may other namespaces, which matters to an engine that knows groups by their names only.

    Args:
        owner: The job.
        engine: The engine.
    """
    name = f"{owner.name}-{owner.kind.lower()}"
    if schedulers.ENGINES[engine].by_name:
        short = digest(owner.uid)[:8]
        name = f"{name}-{short}"
    else:
        short = digest(owner.name, owner.kind)[:8]
    if len(name) <= _MAX_NAME and "." not in name:
        return name
    return f"{owner.name[: _MAX_NAME - len(short) - 1].replace('.', '-').rstrip('-')}-{short}"


def choose(mode: str, served: Sequence[Served], scheduler: str) -> Served | None:
    """Return the engine of a new attempt.

    Args:
        mode: ``--gang-scheduling``.
        served: The engines whose API the cluster serves.
        scheduler: ``schedulerName`` of the pods; empty for the default.
    """
    by_name = {each.name: each for each in served}
    for name, engine in schedulers.ENGINES.items():
        if engine.scheduler not in {"", scheduler}:
            continue
        if mode in {"auto", name} and name in by_name:
            return by_name[name]
    return None


def gang_of(
    policy: SchedulingPolicy, needed: int, *, members: int, queue: str, timeout: int | None
) -> Gang:
    """Return the gang that a policy asks for.

    Args:
        policy: The policy.
        needed: Number of pods without which the job cannot train.
        members: Number of pods that are created together. A gang of more would wait forever.
        queue: Its queue; empty for none.
        timeout: Seconds for which a scheduler may keep room while pods are missing.
    """
    return schedulers.Gang(
        size=max(1, min(policy.min_available or needed, members)),
        queue=queue,
        resources=policy.min_resources,
        priority_class=policy.priority_class or "",
        timeout=timeout,
    )


def document(owner: Owner, served: Served, gang: Gang) -> dict[str, Any]:
    """Return the PodGroup of a job."""
    spec, labels = schedulers.spec_of(served, gang), schedulers.labels_of(served, gang)
    return {
        "apiVersion": served.api_version,
        "kind": schedulers.POD_GROUP,
        "metadata": {
            "name": name_of(owner, served.name),
            "namespace": owner.namespace,
            **({"labels": labels} if labels else {}),
            "annotations": {FINGERPRINT: digest(spec)},
            "ownerReferences": [owner.owner_reference()],
        },
        "spec": spec,
    }


def write(
    owner: Owner, served: Served, gang: Gang, found: PodGroupView | None, *, has_pods: bool
) -> GroupWrite | None:
    """Return what has to be done so that the PodGroup is as wanted; None if it is.

    Args:
        owner: The job.
        served: The engine.
        gang: What is asked for.
        found: The PodGroup of that name; None if there is none.
        has_pods: Whether the job has pods that may belong to it.
    """
    if found is None:
        return GroupWrite(served=served, write=Write(create=document(owner, served, gang)))
    if found.metadata.deletion_timestamp is not None:
        # A protected one stays as long as pods name it: none may before it is gone.
        return None if has_pods else GroupWrite(served=served, delete=found)
    controller = found.metadata.controller
    if controller is None or controller.uid != owner.uid:  # the API's refusal says whose it is
        return GroupWrite(served=served, write=Write(create=document(owner, served, gang)))
    values = schedulers.changes(served, found.spec, found.metadata.labels, gang)
    if not values:
        return None
    if not served.is_resizable:
        # The size cannot be changed. The next attempt gets a PodGroup of the new size.
        return None if has_pods else GroupWrite(served=served, delete=found)
    key = ChildKey(schedulers.POD_GROUP, found.metadata.name)
    patch = Patch(
        key=key, namespace=found.metadata.namespace, uid=found.metadata.uid, values=values
    )
    return GroupWrite(served=served, write=Write(patch=patch), found=found)
