"""Pods of a ChainerJob that are deleted because its spec was changed.

The Job and StatefulSet controllers delete those pods, at a time that cannot be observed exactly. So
the order is: list the pods from the API server, store that they are released (`podrecords`), and
only then write the change that deletes them. Each such change ends each of those pods at most once,
so they are never counted as restarts, however late their end is observed.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from traincrew.api.kinds.chainerjob.types import MASTER
from traincrew.api.meta import parse_time
from traincrew.plan.shared import podrecords, pods
from traincrew.plan.shared.lifecycle import SUSPENDED
from traincrew.plan.shared.masterjob import WATCH_LAG_SECONDS
from traincrew.plan.shared.model import FINGERPRINT, ChildKey
from traincrew.plan.shared.views import StatefulSetView
from traincrew.plan.shared.writes import digest

if TYPE_CHECKING:
    from traincrew.api.kinds.chainerjob.types import ChainerJobSpec
    from traincrew.plan.chainerjob.observed import ObservedJob
    from traincrew.plan.shared.views import ObservedPod

REVISION = "controller-revision-hash"
"""Label that the StatefulSet controller gives pods: the version of the template they have."""


class Edits:
    """What the spec requires of the existing pods.

    Args:
        current: The children and pods.
        spec: The desired state.
        suspended: Whether no pod is wanted at all.
    """

    def __init__(self, current: ObservedJob, spec: ChainerJobSpec, *, suspended: bool) -> None:
        self._current = current
        self._spec = spec
        self._suspended = suspended
        self._records = podrecords.read(current.stored.pod_records)
        self._pods = current.by_place()
        self.ending = frozenset(filter(self._ends, {*self._records, *self._pods}))
        """Places whose pods are to be deleted."""
        unreleased = set(filter(self._is_unreleased, self.ending))
        self._sets = self._sets_ending_pods()
        self._suspends_master = suspended and current.started
        self.held_sets = self._sets & {_split(place)[0] for place in unreleased}
        """Worker sets to be changed, with pods that are not stored as released yet."""
        self.holds_master = self._suspends_master and MASTER in unreleased
        """The same for the master's Job."""

    @property
    def releasing(self) -> bool:
        """Whether any change is held back until it is stored which pods are released."""
        return bool(self.held_sets) or self.holds_master

    @property
    def needs_confirmation(self) -> bool:
        """Whether the pods have to be listed from the API server before this can be decided.

        A pod that is not in the cache may exist, and may be deleted by the change to be written.
        """
        return bool(self._sets or self._suspends_master or self.staying)

    def _sets_ending_pods(self) -> frozenset[str]:
        """Return worker sets whose StatefulSet is to be deleted, or changed so that pods end."""
        prefix, found = self._current.names.workers(""), set()
        for key, view in self._current.observed.children.items():
            if not isinstance(view, StatefulSetView) or view.metadata.deletion_timestamp:
                continue
            name = key.name.removeprefix(prefix)
            workers = self._spec.worker_sets.get(name)
            if self._suspended:
                asks = view.spec.replicas > 0
            elif workers is None:
                asks = True
            else:
                asks = view.spec.replicas > workers.replicas or self.replaces_template(name, view)
            if asks:
                found.add(name)
        return frozenset(found)

    @property
    def staying(self) -> frozenset[str]:
        """Places whose pods were released, and are now certain to stay."""
        return frozenset(filter(self._stays, self._records.keys() - self.ending))

    # -- one place ----------------------------------------------------------------------------

    def _ends(self, place: str) -> bool:
        if self._suspended:
            return True
        if place == MASTER:
            return False
        name, index = _split(place)
        workers = self._spec.worker_sets.get(name)
        if workers is None or index >= workers.replicas:
            return True
        found = self._stateful_set(name)
        return found is not None and self.replaces_template(name, found)

    def replaces_template(self, name: str, found: StatefulSetView) -> bool:
        """Whether the template of a StatefulSet has to be replaced, which ends its pods."""
        wanted = digest(self._spec.worker_sets[name].template)
        key = ChildKey("StatefulSet", found.metadata.name)
        return (
            found.metadata.annotations.get(FINGERPRINT) != wanted
            or key in self._current.observed.drifted
        )

    def _is_unreleased(self, place: str) -> bool:
        record = self._records.get(place)
        if record is None or not record.released:
            return True
        newest = pods.newest(self._pods.get(place, ()))
        return newest is not None and not podrecords.is_of(record, newest)

    def _stays(self, place: str) -> bool:
        if not self._records[place].released:
            return False
        pod = pods.newest(self._pods.get(place, ()))
        if pod is None or pod.metadata.deletion_timestamp is not None:
            return False
        if not podrecords.is_of(self._records[place], pod):
            return False
        return self._master_stays() if place == MASTER else self._worker_stays(place, pod)

    def _worker_stays(self, place: str, pod: ObservedPod) -> bool:
        """Whether the StatefulSet controller has observed the newest spec, and keeps the pod."""
        name, index = _split(place)
        found = self._stateful_set(name)
        return (
            found is not None
            and index < found.spec.replicas
            and found.is_observed
            and pod.metadata.labels.get(REVISION) == found.status.update_revision
        )

    def _master_stays(self) -> bool:
        """Whether the Job controller would have deleted the pod by now."""
        resumed = self._current.stored.condition(SUSPENDED)
        if not self._current.started or resumed is None or resumed.is_true:
            return False
        since = resumed.last_transition_time
        age = self._current.now - parse_time(since) if since else timedelta(0)
        return age >= timedelta(seconds=WATCH_LAG_SECONDS)

    def _stateful_set(self, name: str) -> StatefulSetView | None:
        key = ChildKey("StatefulSet", self._current.names.workers(name))
        return self._current.observed.child(key, StatefulSetView)


def _split(place: str) -> tuple[str, int]:
    """Return the set and index of a worker; an index that is not ours is larger than any."""
    name, _, index = place.rpartition("-")
    return name, int(index) if index.isdecimal() else 1 << 31
