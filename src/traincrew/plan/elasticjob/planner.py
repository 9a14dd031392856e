"""The decisions for an ElasticJob, where they differ from other kinds.

pod missing           -> create it; Services that pods need to start come first, the others behind
pod of no place       -> scaled in: delete it, and then its Service
pod failed, retryable -> count it, then delete it, so that it is recreated
pod failed for good   -> Failed, unless enough workers are left
every worker ended    -> Succeeded; one that had not begun before others were done is not needed
no progress           -> `stalling`: count it, then delete all workers, so that they are recreated
pod unschedulable     -> `scaling` decides whether to give it up

Running pods are left alone: they find each other, and the launcher in them handles workers that
join and leave.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from traincrew.api.kinds.elasticjob import types as api
from traincrew.api.kinds.elasticjob.definition import DEFINITION
from traincrew.api.kinds.elasticjob.rules import problems
from traincrew.api.kinds.elasticjob.types import WORKER, ElasticJobSpec
from traincrew.api.meta import format_time, parse_time
from traincrew.api.reasons import Cause
from traincrew.plan.elasticjob import children, scaling, stalling
from traincrew.plan.elasticjob.children import LABELS
from traincrew.plan.elasticjob.events import WORDS
from traincrew.plan.elasticjob.fit import ALL_WANTED, FITTED, GIVEN_UP
from traincrew.plan.elasticjob.observed import ObservedJob
from traincrew.plan.elasticjob.scaling import Scaling
from traincrew.plan.elasticjob.status import ElasticJobStatus
from traincrew.plan.shared import lifecycle, podrecords, runpolicy, stall
from traincrew.plan.shared.gangs.job import GangSize
from traincrew.plan.shared.lifecycle import Flag, Outcome, Progress
from traincrew.plan.shared.model import ChildKey, Decision, Event, Observed, Plan, Write
from traincrew.plan.shared.queueing import podsets
from traincrew.plan.shared.queueing.podsets import PodSet
from traincrew.plan.shared.replicas.planner import ReplicasPlanner
from traincrew.plan.shared.replicas.states import ENDED, State

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from traincrew.api.meta import Problem
    from traincrew.api.runpolicy import CommonPolicy
    from traincrew.plan.shared.kind import Options
    from traincrew.plan.shared.replicas.places import Place, Replicas

MAX_COMING = 8
"""Maximum number of workers about which the API is asked before their host has a node. They differ
in their names only."""

LATE_SERVICES = timedelta(seconds=10)
"""Maximum time that the Services which no pod needs in order to start wait for the scheduler."""


def plan(observed: Observed, now: datetime, options: Options) -> Decision:
    """Decide what a job needs next."""
    return _Planner(observed, now, options).plan()


class _Planner(ReplicasPlanner[ElasticJobSpec, ElasticJobStatus, ObservedJob]):
    """Decides what one ElasticJob needs next."""

    definition = DEFINITION
    status_type = ElasticJobStatus
    words = WORDS
    labels = LABELS
    specs = "spec.replicaSpecs"
    counted = (WORKER,)

    def __init__(self, observed: Observed, now: datetime, options: Options) -> None:
        super().__init__(observed, now, options)
        self._scaling = Scaling()
        self._decides_limits = False

    # -- the kind -----------------------------------------------------------------------------

    def decode(self, spec: dict[str, Any]) -> ElasticJobSpec:
        decoded = api.decode(spec)
        self._decides_limits = not self.stored.min_replicas and (
            decoded.min_replicas is None or decoded.max_replicas is None
        )
        return api.with_limits(decoded, self.stored.min_replicas, self.stored.max_replicas)

    def problems(self, spec: ElasticJobSpec) -> list[Problem]:
        return problems(self.metadata, spec)

    def replicas(self, spec: ElasticJobSpec) -> dict[str, Replicas]:
        return children.replicas(spec)

    def service(self, spec: ElasticJobSpec, place: Place) -> dict[str, Any]:  # noqa: ARG002
        return children.service(self.owner, place)

    def pod(self, spec: ElasticJobSpec, place: Place) -> dict[str, Any]:
        return children.pod(self.owner, spec, place, self.options.endpoint)

    def observe(self, spec: ElasticJobSpec | None) -> ObservedJob:
        found = self._observe(spec)
        if spec is not None:
            self._scaling = scaling.decide(found, spec, self.stored.fit, self.now)
        if absent := self._scaling.absent:
            found = self._observe(spec, absent)
        # That a worker is given up is stored in `Fit`, and releases its pod as well.
        self.records = podrecords.release(self.records, self._scaling.released)
        return found

    def _observe(
        self, spec: ElasticJobSpec | None, absent: frozenset[Place] = frozenset()
    ) -> ObservedJob:
        time = self.stored.last_scale_in_time
        scaled_in = parse_time(time) if time else None
        return ObservedJob(self.observed, spec, self.now, self.records, absent, scaled_in=scaled_in)

    def add_counts(
        self,
        status: ElasticJobStatus,
        spec: ElasticJobSpec | None,
        released: set[str],
        *,
        wanted: bool,
    ) -> None:
        if not wanted:
            status.fit = None
        elif spec is not None:
            status.min_replicas = spec.min_replicas or status.min_replicas
            status.max_replicas = spec.max_replicas or status.max_replicas
            if self._ends_running_pods(self.current(spec), released):
                status.last_scale_in_time = format_time(self.now)

    def _ends_running_pods(self, current: ObservedJob, released: set[str]) -> bool:
        """Whether running pods are about to be deleted because their place is not desired."""
        return any(
            pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None
            for pod in current.pods.values()
            if current.key_of(pod) in released
        )

    def clean_up(self, plan: Plan, policy: CommonPolicy) -> None:
        if not self.stored.finished:
            return  # not before it is stored how the job ended: only these pods show it
        # Of a job that has succeeded, workers that have not ended came too late to train.
        late = self.stored.holds(lifecycle.SUCCEEDED)
        for pod in self.observed.pods:
            is_late = late and pod.active and pod.metadata.labels.get(LABELS.type) == WORKER.lower()
            if is_late or runpolicy.is_cleaned(policy, pod):
                plan.delete_pods([pod])
        if policy.clean_pod_policy != "None":
            self.delete_services(plan, keep=set())

    # -- the end ------------------------------------------------------------------------------

    def outcome(self, spec: ElasticJobSpec, found: list[Problem]) -> Outcome | None:
        if found:
            return None
        current = self.current(spec)
        workers = current.training
        failed = [
            place
            for place, state in workers.items()
            if state is State.FAILED and not current.is_late(place)
        ]
        never = current.replicas[WORKER].policy == "Never"
        # Workers that are given up as unschedulable can be created again if they are needed.
        if failed and (never or spec.workers.replicas - len(failed) < spec.smallest):
            return self.failed(spec, failed)
        ended = all(state in ENDED for state in workers.values())
        if (ended and len(failed) < max(1, len(workers))) or current.is_complete(spec.smallest):
            return self.succeeded(f"{self.subject} is successfully completed.")
        return None

    def news(self, found: list[Problem]) -> list[Event]:
        exits = super().news(found)
        return exits if found else [*exits, *self._scaling.events]

    # -- progress -----------------------------------------------------------------------------

    def retry(
        self, spec: ElasticJobSpec, numbers: ElasticJobStatus, stalled: stall.Stalled
    ) -> Outcome | str:
        current = self.current(spec)
        if (why := stalling.why_not_again(current, spec, numbers.failures)) is not None:
            return self.failure(Cause.NO_PROGRESS, f"{stalled.message}; {why}")
        return stalling.restart(numbers, current)

    def gang_size(self, spec: ElasticJobSpec) -> GangSize:
        others = sum(each.replicas for name, each in spec.replica_specs.items() if name != WORKER)
        # Workers that are given up are not created.
        return GangSize(needed=spec.smallest + others, members=self.members(spec))

    def trains(self, spec: ElasticJobSpec) -> bool:
        return stalling.can_train(self.current(spec), spec)

    def pod_sets(self, spec: ElasticJobSpec) -> list[PodSet]:
        return [
            PodSet(
                role=name,
                template=each.template,
                count=each.replicas,
                least=spec.smallest if name == WORKER else None,
                index_label=LABELS.index,
            )
            for name, each in sorted(spec.replica_specs.items())
        ]

    def pod_set_of(self, labels: Mapping[str, str]) -> str:
        return podsets.name_of(labels.get(LABELS.type, ""))

    def admitted(self, spec: ElasticJobSpec, counts: Mapping[str, int]) -> ElasticJobSpec:
        """Return the spec with no more workers than admitted; their limits stay the same."""
        most = counts.get(podsets.name_of(WORKER), 0)
        if spec.workers.replicas <= most:
            return spec
        fewer = msgspec.structs.replace(spec.workers, replicas=most)
        return msgspec.structs.replace(
            spec,
            replica_specs={**spec.replica_specs, WORKER: fewer},
            min_replicas=spec.smallest,
            max_replicas=spec.largest,
        )

    def finished_for_good(self) -> dict[str, int]:
        # The launcher ends with 0 when the group has finished, which nobody can join afterwards.
        worker = podsets.name_of(WORKER)
        ended = (
            pod.status.phase == "Succeeded" and self.pod_set_of(pod.metadata.labels) == worker
            for pod in self.observed.pods
        )
        return {worker: sum(ended)}

    def write(self, plan: Plan, spec: ElasticJobSpec, numbers: ElasticJobStatus) -> list[float]:
        if self._decides_limits and numbers.min_replicas:
            # All workers must have the same limits, so they are stored before the first is created.
            self.releasing = True
            return []
        current = self.current(spec)
        return [
            *self._create_missing(plan, spec, current),
            *self.delete_unwanted(plan, current),
            *self._undecided(current),
            *self._scaling.waits,
        ]

    def _create_missing(
        self, plan: Plan, spec: ElasticJobSpec, current: ObservedJob
    ) -> list[float]:
        """Add what is missing to the plan; return the seconds to wait for more.

        Services come before the pods that need their names in order to start. The others follow
        when the pods are scheduled, whose start they would delay.
        """
        host_first = scaling.waits_for_host(current, spec)
        starting = current.seconds_until_scheduled(LATE_SERVICES)
        services: list[Write] = []
        waits: list[float] = []
        for name, place in current.names.items():
            if name in current.services:
                continue
            if children.is_needed_to_start(spec, place):
                services.append(Write(create=self.service(spec, place)))
            elif starting is not None:
                waits = [starting]
            elif name in current.pods:
                plan.later.append(Write(create=self.service(spec, place)))
        missing: list[Write] = []
        for name, place in current.names.items():
            if name in current.pods:
                continue
            waiting = host_first and place.type == WORKER and place != children.RENDEZVOUS_HOST
            if waiting and len(plan.coming) >= MAX_COMING:
                continue
            pod = self.pod(spec, place)
            if waiting:
                plan.coming[ChildKey("Pod", name)] = [pod]
            else:
                missing.append(Write(create=pod))
        plan.stages = [stage for stage in (services, missing) if stage]
        return waits

    def _undecided(self, current: ObservedJob) -> list[float]:
        """Return the seconds until it can be decided why pods failed."""
        return [
            max(1.0, current.seconds_until_decided(pod) or 0.0)
            for place, state in current.states.items()
            if state is State.UNDECIDED and (pod := current.pod(place)) is not None
        ]

    def progress(
        self,
        spec: ElasticJobSpec,
        numbers: ElasticJobStatus,
        found: list[Problem],
        missing: str = "",
    ) -> Progress:
        before = self.stored.condition(FITTED)
        if not found:
            numbers.fit, missing = self._scaling.fit, self._scaling.message
        elif before is not None and before.is_true:
            missing = before.message
        fitted = Flag(
            type=FITTED,
            holds=bool(missing),
            reason=GIVEN_UP if missing else ALL_WANTED,
            message=missing or "Every worker is asked for.",
        )
        doing = super().progress(spec, numbers, found, missing)
        return msgspec.structs.replace(doing, flags=(fitted,))


__all__ = ["plan"]
