"""Which pods a Role of a job may name: those that exist, and that are its own.

Names alone say nothing about who owns a pod: two jobs may want pods of one name, and one of them
has it. So a Role is never written from names that a job is going to have. It names pods that were
observed, whose controller is a StatefulSet that belongs to this very job, by UID.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from traincrew.plan.shared.model import ChildKey
from traincrew.plan.shared.views import StatefulSetView

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from traincrew.plan.shared.model import Observed

PODS, EXEC, STATEFUL_SETS = "pods", "pods/exec", "statefulsets"
"""Resources in the rules of a Role."""

Rules = list[dict[str, Any]]


class Members(Struct, frozen=True):
    """The pods of a StatefulSet of a job.

    Attributes:
        exists: Whether there is such a StatefulSet, and the job owns it.
        wanted: The desired number of pods. While it is lowered, the higher number.
        pods: Names of the pods that it has, in order.
    """

    exists: bool = False
    wanted: int = 0
    pods: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every pod is there."""
        return self.exists and len(self.pods) == self.wanted


class OwnedPods:
    """The pods of the StatefulSets of a job.

    Args:
        observed: The job and its children.
    """

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._by_owner: dict[str, list[str]] = {}
        for pod in observed.pods:
            if (owner := pod.metadata.controller) is not None:
                self._by_owner.setdefault(owner.uid, []).append(pod.metadata.name)

    def of(self, name: str, replicas: int) -> Members:
        """Return the pods of a StatefulSet.

        Args:
            name: Its name.
            replicas: The number of its pods according to the job.
        """
        found = self._observed.child(ChildKey("StatefulSet", name), StatefulSetView)
        if found is None:
            return Members(wanted=replicas)
        wanted = max(replicas, found.spec.replicas)
        pods = {}
        for pod in self._by_owner.get(found.metadata.uid, ()):
            prefix, _, index = pod.rpartition("-")
            if prefix == name and index.isdecimal() and int(index) < wanted:
                pods[int(index)] = pod
        return Members(True, wanted, tuple(pods[index] for index in sorted(pods)))

    def narrowed(self, rules: Rules) -> Rules:
        """Return the rules of a Role without names of pods and sets that the job does not have.

        When a pod is gone no set may be read either, because its next pod would not be named.
        """
        sets = {
            key.name: view.metadata.uid
            for key, view in self._observed.children.items()
            if isinstance(view, StatefulSetView)
        }
        pods = {name for uid in sets.values() for name in self._by_owner.get(uid, ())}
        if not granted(rules) <= pods:
            sets = {}
        kept = []
        for rule in rules:
            there: Collection[str] = sets if STATEFUL_SETS in rule.get("resources", ()) else pods
            names = [name for name in rule.get("resourceNames", ()) if name in there]
            if names:  # an empty list of names would mean every pod
                kept.append({**rule, "resourceNames": names})
        return kept


def granted(rules: Rules) -> frozenset[str]:
    """Return the pods in which a Role lets somebody start processes."""
    return frozenset(
        name
        for rule in rules
        if EXEC in rule.get("resources", ())
        for name in rule.get("resourceNames", ())
    )


def names(before: frozenset[str], there: Sequence[str], needed: Collection[str]) -> list[str]:
    """Return the pods that a Role is to name.

    A new pod alone does not change the Role, so that many pods do not cost many writes. They are
    added together when one of them is needed. A pod that is gone leaves the Role at once.

    Args:
        before: The pods that the Role names.
        there: The pods that the job has, in order.
        needed: Those that processes may be started in from now on.
    """
    if before.issubset(there) and before.issuperset(needed):
        return [name for name in there if name in before]
    return [*there]


__all__ = ["Members", "OwnedPods", "granted", "names"]
