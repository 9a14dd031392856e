"""What the pods of a ChainerJob may do: start processes in its workers.

The hosts of a launcher are those of its StatefulSets when it starts, also when its Job tries it
again without asking the operator. So it may read a StatefulSet only while its Role names every pod
of that set; until then the init container that makes the hostfile waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from traincrew.plan.chainerjob.children import Names
from traincrew.plan.shared import grants
from traincrew.plan.shared.model import ChildKey
from traincrew.plan.shared.views import RoleView

if TYPE_CHECKING:
    from traincrew.api.kinds.chainerjob.types import ChainerJobSpec
    from traincrew.plan.shared.model import Observed


class Grant(Struct, frozen=True):
    """What the Role of a job names.

    Attributes:
        sets: StatefulSets that may be read.
        pods: Pods that processes may be started in.
        complete: Whether these are all workers, so that the master may start.
    """

    sets: list[str]
    pods: list[str]
    complete: bool


def grant(observed: Observed, spec: ChainerJobSpec) -> Grant:
    """Return what the Role of a job is to name."""
    of_job, owned = Names(observed.job.metadata.name), grants.OwnedPods(observed)
    found = {
        of_job.workers(name): owned.of(of_job.workers(name), workers.replicas)
        for name, workers in sorted(spec.worker_sets.items())
    }
    there = [pod for members in found.values() for pod in members.pods]
    complete = all(members.complete for members in found.values())
    role = observed.child(ChildKey("Role", of_job.role), RoleView)
    before = grants.granted(role.rules) if role is not None else frozenset()
    pods = grants.names(before, there, there if complete else ())
    named = set(pods)
    sets = [
        name
        for name, members in found.items()
        if members.complete and named.issuperset(members.pods)
    ]
    return Grant(sets, pods, complete)


__all__ = ["Grant", "grant"]
