"""What to do about an ElasticJob, where it differs from other kinds.

pod missing           -> make it, and the Service of its name
pod of no place       -> scaled in: delete it, and its Service when it has gone
pod failed, may come  -> count it, then delete it, which makes it missing
pod failed for good   -> Failed, unless enough workers are left
every worker ended    -> Succeeded
no room for a pod     -> `elasticjob_fit` says whether to do without

Pods that run are left alone: they find each other, and the launcher in them deals with those that
come and go.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from traincrew.api import elasticjob as api
from traincrew.api.elasticjob import WORKER, ElasticJobSpec
from traincrew.api.elasticjob_rules import problems
from traincrew.api.meta import format_time, parse_time
from traincrew.api.runpolicy import CommonPolicy
from traincrew.plan import elasticjob_children as children
from traincrew.plan import elasticjob_fit, elasticjob_status, lifecycle, podrecords, pods, runpolicy
from traincrew.plan import elasticjob_notes as notes
from traincrew.plan.elasticjob_facts import ENDED, TO_REPLACE, Facts, State
from traincrew.plan.elasticjob_fit import Fitting
from traincrew.plan.lifecycle import Outcome, Progress, Status
from traincrew.plan.look import FOREIGN_RETRY_SECONDS, RESOURCE_EXISTS, Look
from traincrew.plan.model import ChildKey, ChildView, Event, Observed, Plan, Write

if TYPE_CHECKING:
    from datetime import datetime

    from traincrew.api.meta import Problem
    from traincrew.plan.elasticjob_children import Place
    from traincrew.plan.model import PodView

AT_LEAST = timedelta(seconds=10)
"""Between two pods in the same place, when the first one failed: a program that fails at once does
not keep the whole cluster busy. A pod that ran for longer is made again at once."""


def plan(observed: Observed, now: datetime) -> Plan:
    """Decide what a job needs next."""
    return _Look(observed, now).plan()


class _Look(Look[ElasticJobSpec]):
    """One look at one job, and what follows from it."""

    api_version = api.API_VERSION
    kind = api.KIND
    suspend_field = "spec.suspend"
    default_policy = CommonPolicy(clean_pod_policy="None")

    def __init__(self, observed: Observed, now: datetime) -> None:
        super().__init__(observed, now)
        self._facts: Facts | None = None
        self._fitting = Fitting()
        self._counted: dict[bool, Status] = {}
        self._records = podrecords.read(self.stored.pod_records)

    # -- what it is made of -------------------------------------------------------------------

    def decode(self, spec: dict[str, Any]) -> ElasticJobSpec:
        return api.decode(spec)

    def policy(self, spec: ElasticJobSpec) -> CommonPolicy:
        return spec

    def problems(self, spec: ElasticJobSpec) -> list[Problem]:
        return problems(self.metadata, spec)

    def defaults(self, spec: ElasticJobSpec) -> dict[str, Any]:
        return api.computed_defaults(spec)

    @property
    def begun(self) -> bool:
        return self.stored.condition(lifecycle.RUNNING) is not None

    # Both are asked for several times in one look, and a job may have thousands of workers.

    def facts(self, spec: ElasticJobSpec | None) -> Facts:
        """What became of the pods."""
        if self._facts is None:
            self._facts = Facts(self.observed, spec, self.now)
            if spec is not None:
                self._fitting = elasticjob_fit.decide(self._facts, spec, self.stored.fit, self.now)
            if absent := self._fitting.absent:
                self._facts = Facts(self.observed, spec, self.now, absent)
        return self._facts

    def counted(self, spec: ElasticJobSpec | None, *, wanted: bool = True) -> Status:
        if (found := self._counted.get(wanted)) is None:
            facts, job = self.facts(spec), self.owner.name
            records = {
                place: record
                for place, record in self._records.items()
                if place not in self._fitting.forgotten
            }
            found = elasticjob_status.counted(facts, self.stored, records, job, spec, wanted=wanted)
            self._counted[wanted] = found
        return msgspec.structs.replace(found)

    def document(self, status: Status) -> dict[str, Any]:
        return elasticjob_status.document(status, self.observed.job.status, self.now)

    def stop(self, plan: Plan, policy: CommonPolicy) -> None:
        if not self.stored.finished:
            return  # once it is stored: pods that are gone cannot say again how the job ended
        for pod in self.observed.pods:
            if runpolicy.is_cleaned(policy, pod):
                _delete_pod(plan, pod)
        if policy.clean_pod_policy != "None":
            self._delete_services(plan, keep=set())

    def suspend(self, plan: Plan) -> None:
        for pod in self.observed.pods:
            _delete_pod(plan, pod)

    def transitions(self, status: Status) -> list[Event]:
        return notes.transitions(self.stored, status)

    def put_into_effect(self, spec: ElasticJobSpec) -> list[Event]:
        return notes.replaced_policies(spec)

    def refused(self, key: ChildKey) -> str:
        return f"FailedCreate{key.kind}"

    # -- how it ends --------------------------------------------------------------------------

    def outcome(self, spec: ElasticJobSpec, found: list[Problem]) -> Outcome | None:
        if found or self.stored.holds(lifecycle.SUSPENDED):
            return None
        facts = self.facts(spec)
        workers = facts.workers()
        failed = [place for place, state in workers.items() if state is State.FAILED]
        never = children.restart_policy(spec.workers) == "Never"
        # Those that are given up for want of room may come again, if they are needed.
        if failed and (never or spec.workers.replicas - len(failed) < spec.smallest):
            return self._failed(facts, failed)
        if all(state in ENDED for state in workers.values()) and len(failed) < max(1, len(workers)):
            text = f"{api.KIND} {self.owner.name} is successfully completed."
            return Outcome(succeeded=True, reason=notes.SUCCEEDED, message=text)
        failures = self.counted(spec).failures
        restarts = facts.restarts_in_place()
        if runpolicy.past_backoff_limit(spec, failures=failures, restarts=restarts):
            return runpolicy.too_often(self.owner.name)
        left = runpolicy.time_left(self.stored, spec, self.now)
        if left is not None and left <= timedelta(0):
            return runpolicy.too_long(self.owner.name)
        return None

    def _failed(self, facts: Facts, failed: list[Place]) -> Outcome:
        text = (
            f"{api.KIND} {self.owner.name} is failed because {len(failed)} {WORKER} replica(s)"
            " failed."
        )
        lost = [pod for place in failed if (pod := facts.pod(place)) is not None]
        why = pods.some([pods.failure(pod) for pod in lost])
        return Outcome(succeeded=False, reason=notes.FAILED, message=f"{text} {why}")

    def ended(self, spec: ElasticJobSpec, outcome: Outcome) -> Plan:
        plan = super().ended(spec, outcome)
        plan.events = [*self._exits(spec), *plan.events]
        return plan

    def _exits(self, spec: ElasticJobSpec) -> list[Event]:
        return notes.exits(self.facts(spec), self.owner.namespace, self._records)

    # -- how it gets on -----------------------------------------------------------------------

    def going(self, spec: ElasticJobSpec, found: list[Problem]) -> Plan:
        facts = self.facts(spec)
        if not facts.pods and (refusal := self.permanent_refusal()) is not None:
            return self.ended(spec, refusal)
        numbers = self.counted(spec)
        if not found:
            numbers.fit = self._fitting.fit
        progress = self._progress(facts, numbers, found)
        status = self.advance(numbers, progress=progress)
        plan = Plan(status=self.document(status))
        waits = []
        if not found and not self.observed.leftovers:
            self._make(plan, spec, facts)
            waits = [*self._take_away(plan, facts), *self._fitting.waits]
        plan.events = self._exits(spec) + self.transitions(status)
        if not found:
            plan.events += self._fitting.events
        plan.events += self.sync_events(spec, status, progress)
        if progress.sync_reason == RESOURCE_EXISTS:
            waits.append(FOREIGN_RETRY_SECONDS)
        left = runpolicy.time_left(status, spec, self.now)
        if left is not None:
            waits.append(left.total_seconds())
        plan.look_again_after = min(waits, default=None)
        return self.complete(plan)

    def _make(self, plan: Plan, spec: ElasticJobSpec, facts: Facts) -> None:
        """What is missing; names before the pods that use them."""
        host_first = elasticjob_fit.waits_for_host(facts, spec)
        services = [
            Write(create=children.service(self.owner, place))
            for name, place in facts.names.items()
            if name not in facts.services
        ]
        missing = [
            Write(create=children.pod(self.owner, spec, place))
            for name, place in facts.names.items()
            if name not in facts.pods
            and (place == children.HOST or place.type != WORKER or not host_first)
        ]
        plan.stages = [stage for stage in (services, missing) if stage]

    def _take_away(self, plan: Plan, facts: Facts) -> list[float]:
        """What is too much, or has to be made again; returns after what time there may be more."""
        waits = []
        for pod in facts.pods.values():
            if pod.metadata.name not in facts.names:
                _delete_pod(plan, pod)
        self._delete_services(plan, keep={*facts.names, *facts.absent.values()})
        for place, state in facts.states.items():
            pod_there, record = facts.pod(place), self._records.get(place.key)
            if pod_there is None:
                continue
            if state is State.OPEN:
                waits.append(max(1.0, facts.until_judged(pod_there) or 0.0))
            if state not in TO_REPLACE or record is None:
                continue
            since = self.now - parse_time(pod_there.metadata.creation_timestamp)
            if since < AT_LEAST:
                waits.append((AT_LEAST - since).total_seconds())
            elif record.failed and podrecords.is_of(record, pod_there):
                _delete_pod(plan, pod_there)
        return waits

    def _delete_services(self, plan: Plan, keep: set[str]) -> None:
        """Services of pods that are not there any more: until the end they are called by name."""
        kept = keep | {pod.metadata.name for pod in self.observed.pods}
        for key, view in self.observed.children.items():
            if key.kind == "Service" and key.name not in kept:
                _delete(plan, key, view)

    def _progress(self, facts: Facts, numbers: Status, found: list[Problem]) -> Progress:
        sync_reason, sync_message = self.sync_problem(found) or ("", None)
        workers = facts.workers()
        lost = facts.lost(podrecords.read(numbers.pod_records))
        runs = State.RUNNING in workers.values()
        # Between the first worker that is done and the last one nothing has to run.
        running = runs or (
            self.stored.holds(lifecycle.RUNNING) and State.SUCCEEDED in workers.values()
        )
        names = [place.name(self.owner.name) for place in workers]
        before = self.stored.condition(lifecycle.FITTED)
        fitted = self._fitting.words if not found else ""
        if found and before is not None and before.is_true:
            fitted = before.message
        troubles = pods.list_troubles(names, self.observed.pods)
        troubles = "; ".join(filter(None, (troubles, fitted)))
        count = sum(state is State.RUNNING for state in workers.values())
        total = len(workers) + len(facts.absent)
        name = f"{api.KIND} {self.owner.name}"
        if sync_message is not None and not runs:
            reason, message = sync_reason, sync_message
        elif lost:
            reason = notes.RESTARTING
            message = f"{name} is restarting because {len(lost)} {WORKER} replica(s) failed."
            message = " ".join(filter(None, (message, troubles)))
        elif running:
            reason, message = notes.RUNNING, f"{name} is running."
            if count < total and troubles:
                message += f" {count}/{total} workers running; {troubles}"
        else:
            reason = "WaitingForWorkers"
            message = f"{count}/{total} workers running"
            message = "; ".join(filter(None, (message, troubles)))
        return Progress(
            reason=reason,
            message=message,
            running=running,
            restarting=bool(lost),
            started_at=self.stored.start_time or format_time(self.now),
            sync_problem=sync_message,
            sync_reason=sync_reason,
            fitted=fitted,
        )


def _delete_pod(plan: Plan, pod: PodView) -> None:
    _delete(plan, ChildKey("Pod", pod.metadata.name), pod)


def _delete(plan: Plan, key: ChildKey, view: ChildView) -> None:
    if view.metadata.deletion_timestamp is None:
        plan.delete[key] = view.metadata.uid


__all__ = ["plan"]
