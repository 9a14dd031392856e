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

# Over 400 lines: what the kind answers to the shared planner, one method for each question.
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from traincrew.api.kinds.elasticjob import types as api
from traincrew.api.kinds.elasticjob.definition import DEFINITION
from traincrew.api.kinds.elasticjob.rules import problems
from traincrew.api.kinds.elasticjob.types import WORKER, ElasticJobSpec
from traincrew.api.meta import parse_time
from traincrew.api.reasons import Cause
from traincrew.plan.elasticjob import children, events, scaling, stalling
from traincrew.plan.elasticjob.children import LABEL_INDEX, LABEL_TYPE
from traincrew.plan.elasticjob.fit import FITTED
from traincrew.plan.elasticjob.observed import ObservedJob
from traincrew.plan.elasticjob.progress import progress
from traincrew.plan.elasticjob.scaling import Scaling
from traincrew.plan.elasticjob.status import ElasticJobStatus, status_with_counts
from traincrew.plan.shared import failing, lifecycle, podrecords, pods, runpolicy, stall
from traincrew.plan.shared.facts import Attempts
from traincrew.plan.shared.gangs.job import GangSize
from traincrew.plan.shared.lifecycle import Outcome, Progress
from traincrew.plan.shared.model import ChildKey, Decision, Event, Observed, Plan, Write
from traincrew.plan.shared.planner import JobPlanner
from traincrew.plan.shared.queueing import podsets
from traincrew.plan.shared.queueing.podsets import PodSet
from traincrew.plan.shared.replicas import counts
from traincrew.plan.shared.replicas.states import ENDED, TO_RECREATE, State, seconds_to_recreate

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from traincrew.api.meta import Problem
    from traincrew.api.runpolicy import CommonPolicy
    from traincrew.plan.shared.kind import Options
    from traincrew.plan.shared.replicas.places import Place
    from traincrew.plan.shared.views import ObservedPod

NAMED = DEFINITION.containers
MAX_COMING = 8
"""Maximum number of workers about which the API is asked before their host has a node. They differ
in their names only."""

LATE_SERVICES = timedelta(seconds=10)
"""Maximum time that the Services which no pod needs in order to start wait for the scheduler."""


def plan(observed: Observed, now: datetime, options: Options) -> Decision:
    """Decide what a job needs next."""
    return _Planner(observed, now, options).plan()


class _Planner(JobPlanner[ElasticJobSpec, ElasticJobStatus]):
    """Decides what one ElasticJob needs next."""

    definition = DEFINITION
    status_type = ElasticJobStatus

    def __init__(self, observed: Observed, now: datetime, options: Options) -> None:
        super().__init__(observed, now, options)
        self._current: ObservedJob | None = None
        self._scaling = Scaling()
        self._decides_limits = False
        self._status: dict[bool, ElasticJobStatus] = {}
        self._records = podrecords.read(self.stored.pod_records)

    # -- the kind -----------------------------------------------------------------------------

    def decode(self, spec: dict[str, Any]) -> ElasticJobSpec:
        decoded = api.decode(spec)
        self._decides_limits = not self.stored.min_replicas and (
            decoded.min_replicas is None or decoded.max_replicas is None
        )
        return api.with_limits(decoded, self.stored.min_replicas, self.stored.max_replicas)

    def problems(self, spec: ElasticJobSpec) -> list[Problem]:
        return problems(self.metadata, spec)

    @property
    def has_started(self) -> bool:
        return self.stored.condition(lifecycle.RUNNING) is not None

    @property
    def is_training(self) -> bool:
        return bool(self.observed.pods)

    # Cached: a reconcile needs both repeatedly, and a job may have thousands of workers.

    def current(self, spec: ElasticJobSpec | None) -> ObservedJob:
        """Return the observed state."""
        if self._current is None:
            self._current = self._observe(spec)
            if spec is not None:
                self._scaling = scaling.decide(self._current, spec, self.stored.fit, self.now)
            if absent := self._scaling.absent:
                self._current = self._observe(spec, absent)
            # That a worker is given up is stored in `Fit`, and releases its pod as well.
            self._records = podrecords.release(self._records, self._scaling.released)
        return self._current

    def _observe(
        self, spec: ElasticJobSpec | None, absent: frozenset[Place] = frozenset()
    ) -> ObservedJob:
        time = self.stored.last_scale_in_time
        scaled_in = parse_time(time) if time else None
        return ObservedJob(
            self.observed, spec, self.now, self._records, absent, scaled_in=scaled_in
        )

    def status_with_counts(
        self, spec: ElasticJobSpec | None, *, wanted: bool = True
    ) -> ElasticJobStatus:
        if (found := self._status.get(wanted)) is None:
            current, job = self.current(spec), self.owner.name
            records = self._records
            if self.observed.confirmed:
                records = podrecords.unrelease(records, self._released_and_present())
            found = status_with_counts(current, self.stored, records, job, spec, wanted=wanted)
            self._status[wanted] = found
        return msgspec.structs.replace(found)

    def _released_and_present(self) -> set[str]:
        """Return the desired places with a released pod that is not terminating.

        Either it has not been deleted yet, and is desired again; or the cache is stale.
        """
        current = self._current
        assert current is not None
        return {
            place.key
            for place in current.places
            if (pod := current.pod(place)) is not None
            and pod.metadata.deletion_timestamp is None
            and podrecords.is_released(self._records, place.key, pod)
        }

    def needs_confirmation(self, spec: ElasticJobSpec) -> bool:
        self.current(spec)
        return not self.policy(spec).suspend and bool(self._released_and_present())

    def document(self, status: ElasticJobStatus) -> dict[str, Any]:
        return counts.document(status, self.observed.job.status, self.now)

    def clean_up(self, plan: Plan, policy: CommonPolicy) -> None:
        if not self.stored.finished:
            return  # not before it is stored how the job ended: only these pods show it
        # Of a job that has succeeded, workers that have not ended came too late to train.
        late = self.stored.holds(lifecycle.SUCCEEDED)
        for pod in self.observed.pods:
            is_late = late and pod.active and pod.metadata.labels.get(LABEL_TYPE) == WORKER.lower()
            if is_late or runpolicy.is_cleaned(policy, pod):
                plan.delete_pods([pod])
        if policy.clean_pod_policy != "None":
            self._delete_services(plan, keep=set())

    def suspend(self, plan: Plan, spec: ElasticJobSpec) -> None:  # noqa: ARG002
        for pod in self.observed.pods:
            self._delete_released(plan, pod)

    def transitions(self, status: ElasticJobStatus) -> list[Event]:
        return events.transitions(self.stored, status)

    def events_on_spec_change(self, spec: ElasticJobSpec) -> list[Event]:
        return events.replaced_policies(spec)

    # -- the end ------------------------------------------------------------------------------

    def outcome(self, spec: ElasticJobSpec, found: list[Problem]) -> Outcome | None:
        if found:
            return None
        current = self.current(spec)
        workers = current.workers()
        failed = [
            place
            for place, state in workers.items()
            if state is State.FAILED and not current.is_late(place)
        ]
        never = children.restart_policy(spec.workers) == "Never"
        # Workers that are given up as unschedulable can be created again if they are needed.
        if failed and (never or spec.workers.replicas - len(failed) < spec.smallest):
            return self._failed(current, failed)
        ended = all(state in ENDED for state in workers.values())
        if (ended and len(failed) < max(1, len(workers))) or current.is_complete(spec.smallest):
            text = f"{api.KIND} {self.owner.name} is successfully completed."
            return Outcome(succeeded=True, reason=events.SUCCEEDED, message=text)
        return None

    def attempts(self, spec: ElasticJobSpec, found: list[Problem]) -> Attempts:
        if found:
            return Attempts()
        return Attempts(
            limit=spec.backoff_limit,
            failures=self.status_with_counts(spec).failures,
            restarts=self.current(spec).restarts_in_place(),
            message=runpolicy.backoff_limit_text(self.owner.name),
        )

    def deadline_text(self, policy: CommonPolicy) -> str:  # noqa: ARG002
        return runpolicy.deadline_text(self.owner.name)

    def _failed(self, current: ObservedJob, failed: list[Place]) -> Outcome:
        text = (
            f"{api.KIND} {self.owner.name} is failed because {len(failed)} {WORKER} replica(s)"
            " failed."
        )
        lost = [(place, pod) for place in failed if (pod := current.pod(place)) is not None]
        lost.sort(key=lambda each: failing.order(pods.ended_at(each[1], NAMED), *each[0]))
        why = pods.first_few(pods.failures((pod for _, pod in lost), NAMED))
        return self.failure(Cause.PROGRAM, f"{text} {why}")

    def at_end(self, plan: Plan, spec: ElasticJobSpec, outcome: Outcome) -> None:  # noqa: ARG002
        exits = events.exits(self.current(spec), self.owner.namespace, self._records)
        plan.events = [*exits, *plan.events]

    def news(self, found: list[Problem]) -> list[Event]:
        assert self._current is not None
        exits = events.exits(self._current, self.owner.namespace, self._records)
        return exits if found else [*exits, *self._scaling.events]

    # -- progress -----------------------------------------------------------------------------

    def can_stall(self, spec: ElasticJobSpec, numbers: ElasticJobStatus) -> bool:  # noqa: ARG002
        return stalling.can_train(self.current(spec), spec)

    def retry(
        self, spec: ElasticJobSpec, numbers: ElasticJobStatus, stalled: stall.Stalled
    ) -> Outcome | str:
        current = self.current(spec)
        if (why := stalling.why_not_again(current, spec, numbers.failures)) is not None:
            return self.failure(Cause.NO_PROGRESS, f"{stalled.message}; {why}")
        return stalling.restart(numbers, current)

    def seconds_to_start(
        self,
        spec: ElasticJobSpec,
        numbers: ElasticJobStatus,  # noqa: ARG002
        progress: Progress,
    ) -> float | None:
        # Once it has trained, it waits for workers that are lost for an unlimited time.
        if progress.running or runpolicy.has_run(self.stored):
            return None
        return self.time_left_to_start(spec)

    def gang_size(self, spec: ElasticJobSpec) -> GangSize:
        others = sum(each.replicas for name, each in spec.replica_specs.items() if name != WORKER)
        # Workers that are given up are not created.
        members = sum(state not in ENDED for state in self.current(spec).states.values())
        return GangSize(needed=spec.smallest + others, members=members)

    def trains(self, spec: ElasticJobSpec) -> bool:
        return stalling.can_train(self.current(spec), spec)

    def pod_sets(self, spec: ElasticJobSpec) -> list[PodSet]:
        return [
            PodSet(
                role=name,
                template=each.template,
                count=each.replicas,
                least=spec.smallest if name == WORKER else None,
                index_label=LABEL_INDEX,
            )
            for name, each in sorted(spec.replica_specs.items())
        ]

    def pod_set_of(self, labels: Mapping[str, str]) -> str:
        return podsets.name_of(labels.get(LABEL_TYPE, ""))

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

    def pod_templates(self, spec: ElasticJobSpec) -> list[dict[str, Any]]:
        return [each.template for each in spec.replica_specs.values()]

    def write(self, plan: Plan, spec: ElasticJobSpec, numbers: ElasticJobStatus) -> list[float]:
        if self._decides_limits and numbers.min_replicas:
            # All workers must have the same limits, so they are stored before the first is created.
            self.releasing = True
            return []
        current = self.current(spec)
        return [
            *self._create_missing(plan, spec, current),
            *self._delete_unwanted(plan, current),
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
                services.append(Write(create=children.service(self.owner, place)))
            elif starting is not None:
                waits = [starting]
            elif name in current.pods:
                plan.later.append(Write(create=children.service(self.owner, place)))
        missing: list[Write] = []
        for name, place in current.names.items():
            if name in current.pods:
                continue
            waiting = host_first and place.type == WORKER and place != children.RENDEZVOUS_HOST
            if waiting and len(plan.coming) >= MAX_COMING:
                continue
            pod = children.pod(self.owner, spec, place, self.options.endpoint)
            if waiting:
                plan.coming[ChildKey("Pod", name)] = [pod]
            else:
                missing.append(Write(create=pod))
        plan.stages = [stage for stage in (services, missing) if stage]
        return waits

    def _delete_unwanted(self, plan: Plan, current: ObservedJob) -> list[float]:
        """Delete what is not desired, or to be recreated; return the seconds to wait for more."""
        waits = []
        for pod in current.pods.values():
            if pod.metadata.name not in current.names:
                self._delete_released(plan, pod)
        self._delete_services(plan, keep={*current.names, *current.absent.values()})
        for place, state in current.states.items():
            pod_there, record = current.pod(place), self._records.get(place.key)
            if pod_there is None:
                continue
            if state is State.UNDECIDED:
                waits.append(max(1.0, current.seconds_until_decided(pod_there) or 0.0))
            if state is State.STALLED:
                plan.delete_pods([pod_there])
                continue
            if state not in TO_RECREATE or record is None:
                continue
            if (wait := seconds_to_recreate(pod_there, record, state, NAMED, self.now)) > 0:
                waits.append(wait)
            elif record.failed and podrecords.is_of(record, pod_there):
                plan.delete_pods([pod_there])
        return waits

    def _delete_released(self, plan: Plan, pod: ObservedPod) -> None:
        """Delete a pod that is not desired, once it is stored as released."""
        assert self._current is not None
        if podrecords.is_released(self._records, self._current.place_of(pod), pod):
            plan.delete_pods([pod])
        elif pod.metadata.deletion_timestamp is None:
            self.releasing = True

    def _delete_services(self, plan: Plan, keep: set[str]) -> None:
        """Delete the Services of pods that no longer exist; until then their names are in use."""
        kept = keep | {pod.metadata.name for pod in self.observed.pods}
        for key, view in self.observed.children.items():
            if key.kind == "Service" and key.name not in kept:
                plan.delete_child(key, view)

    def progress(
        self, spec: ElasticJobSpec, numbers: ElasticJobStatus, found: list[Problem]
    ) -> Progress:
        current = self.current(spec)
        before, fitted = self.stored.condition(FITTED), ""
        if not found:
            numbers.fit, fitted = self._scaling.fit, self._scaling.message
        elif before is not None and before.is_true:
            fitted = before.message
        return progress(
            self.observed,
            self.stored,
            current,
            self.now,
            records=podrecords.read(numbers.pod_records),
            fitted=fitted,
            problem=self.sync_problem(found),
        )


__all__ = ["plan"]
