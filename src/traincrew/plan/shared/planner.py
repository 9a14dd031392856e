"""The decisions for one job, in the same order for every kind.

managed elsewhere  -> nothing at all; for MultiKueue its Workload
being deleted      -> nothing; garbage collection deletes its children
finished           -> final: only the cleanup of pods and the time to live continue
invalid            -> Failed, with the field and the fix
spec incomplete    -> write what the kind's contract wants there
ended by itself    -> Succeeded or Failed, and the cleanup
past a limit       -> Failed: the back-off limit, the deadline
held               -> delete the pods: the user suspends the job, or something else holds it
no progress        -> another attempt, or Failed
not started        -> Failed, when the time to start is over or the API never accepts a child
else               -> the children that the kind wants, once no earlier ones are in the way

A kind says what its jobs are like (`traincrew.plan.shared.facts`); the run policy, conditions and
refused writes are handled here, and how long to wait for each of them.
"""

from __future__ import annotations

# Over 400 lines: the decisions for a job, one after the other; each needs what the others found.
import re
from datetime import timedelta
from typing import Any

import msgspec

from traincrew.api import placeholders
from traincrew.api.meta import Problem
from traincrew.api.reasons import Cause
from traincrew.api.runpolicy import CommonPolicy, default_policy
from traincrew.plan.shared import lifecycle, pods, runpolicy, stall
from traincrew.plan.shared.assembly import first
from traincrew.plan.shared.facts import Spec, refusal_text
from traincrew.plan.shared.gangs.job import READ_SECONDS, WAITING
from traincrew.plan.shared.holds import Holding
from traincrew.plan.shared.lifecycle import AnyStatus, Outcome, Progress
from traincrew.plan.shared.model import (
    Confirm,
    Decision,
    Event,
    LogKey,
    LogQuery,
    ObjectQuery,
    OutputQuery,
    Plan,
    Question,
    SpecPatch,
)

RESOURCE_EXISTS_RETRY_SECONDS = 30.0
"""The deletion of an object that is not managed by the job triggers no reconcile, so requeue."""

_LEAVING = re.compile(r";? \d+ pods? (?:is|are) being ended\.?$")

_MAX_LOGS_READ = 3
"""Maximum number of logs read for one message; it shows this many failures."""


def _counts_active(field: Any) -> bool:
    """Return whether a field of a status, by role or a list of roles, counts what is active."""
    found = field.values() if isinstance(field, dict) else field
    roles = found if isinstance(field, (dict, list)) else ()
    return any(role.get("active") for role in roles if isinstance(role, dict))


class JobPlanner(Holding[Spec, AnyStatus]):
    """Decides what one job needs next."""

    def plan(self) -> Decision:
        """Return what has to be done, or read or stored before that can be decided."""
        if not self.definition.manager.is_here(self.observed.job.spec):
            return self.plan_elsewhere()
        if self.metadata.deletion_timestamp is not None:
            return self.plan_deleted()
        try:
            spec = self.decode(self.observed.job.spec)
        except msgspec.ValidationError as error:
            if self.stored.finished:
                return self._plan_finished(self._default_policy)
            return self._plan_invalid([Problem("spec", str(error))])
        self.progress_limit = self.progress_deadline(spec)
        if self.stored.finished:
            return self._plan_finished(self.policy(spec))
        if any(each not in self.observed.objects for each in self.references(spec)):
            return ObjectQuery(self.references(spec))
        found = self.problems(spec)
        if not self.has_started:  # a job that runs with one does not stop for it
            found = [*placeholders.problems(self.observed.job.spec, "spec"), *found]
        if found and not self.has_started:
            return self._plan_invalid(found)
        if not found and (patch := self.spec_patch(spec)):
            return SpecPatch(patch)
        if (asked := self.queue_question(spec, found)) is not None:
            return asked
        spec = self.in_queue(spec, found)
        if not found and (question := self.gang(spec).question()) is not None:
            return question
        hold = self.hold_of(spec, found)
        if isinstance(hold, Confirm):
            return hold
        if hold is not None:
            spec = self.suspended(spec)
        if not found and not self.observed.confirmed and self.needs_confirmation(spec):
            return Confirm(unseen=self.unseen(spec))
        if logs := self._unread_logs():
            return LogQuery(logs)
        if (outcome := self._outcome(spec, found)) is not None:
            return self._plan_end(spec, outcome)
        if hold is not None:
            return self.plan_held(spec, hold)
        if self.admission_conflict:
            conflict = self.failure(Cause.REFUSED, self.admission_conflict, child="Pod")
            return self._plan_end(spec, conflict)
        return self.not_held(self._plan_active(spec, found))

    @property
    def _default_policy(self) -> CommonPolicy:
        return default_policy(self.definition.spec)

    def _unread_logs(self) -> tuple[LogKey, ...]:
        """Return logs to read of the first pods that failed; others probably failed as a result."""
        left = _MAX_LOGS_READ - len(self.observed.logs)
        if left <= 0:
            return ()
        named = self.definition.containers
        failed = sorted(self.observed.pods, key=lambda pod: pods.ended_at(pod, named))
        unread = [
            key for pod in failed for key in pods.logs_to_read(pod) if key not in self.observed.logs
        ]
        return tuple(unread[:left])

    # -- the end ------------------------------------------------------------------------------

    def _outcome(self, spec: Spec, found: list[Problem]) -> Outcome | None:
        """Return how the job ends, if it does: by itself, or past a limit of its policy."""
        if self.delegates_limits:
            return self.outcome(spec, found)
        if self.stored.holds(lifecycle.SUSPENDED):
            return None  # its pods were ended by us
        return (
            self.outcome(spec, found)
            or self._past_backoff_limit(spec, found)
            or self._past_deadline(spec)
        )

    def _past_backoff_limit(self, spec: Spec, found: list[Problem]) -> Outcome | None:
        attempts = self.attempts(spec, found)
        if not runpolicy.past_backoff_limit(
            attempts.limit, failures=attempts.failures, restarts=attempts.restarts
        ):
            return None
        times = pods.quantity(attempts.failures + attempts.restarts, "time")
        limit = f"{self.policy_field}.backoffLimit: {attempts.limit}"
        text = attempts.message or f"The program has failed {times} ({limit})."
        if attempts.stalled:
            return self.failure(
                Cause.NO_PROGRESS, f"{lifecycle.reported_stall(self.stored)}; {text}"
            )
        return self.failure(Cause.BACKOFF_LIMIT, text)

    def _past_deadline(self, spec: Spec) -> Outcome | None:
        policy = self.policy(spec)
        left = runpolicy.time_left(self.stored, policy, self.now)
        if left is None or left > timedelta(0):
            return None
        return self.failure(Cause.DEADLINE, self.deadline_text(policy))

    def deadline_text(self, policy: CommonPolicy) -> str:
        """Return what is said of a job that exceeded its deadline."""
        seconds = policy.active_deadline_seconds
        field = f"{self.policy_field}.activeDeadlineSeconds"
        return f"The job was active for {seconds} s ({field})."

    def _plan_end(self, spec: Spec, outcome: Outcome, numbers: AnyStatus | None = None) -> Plan:
        """Plan for a job that ends with this reconcile.

        Args:
            spec: The desired state.
            outcome: How it ends.
            numbers: The status with counts, if more was counted than the kind counts by itself.
        """
        if numbers is None:
            numbers = self.status_with_counts(spec)
        if self.definition.project is None:
            numbers.pod_records = {}  # restarts are no longer counted
        # Else the end is stored in two writes (`api.fullstatus`). An operator that takes over
        # between them needs the records; they go afterwards.
        status = self.advance(numbers, outcome=outcome)
        plan = self._cleaned_up(status, self.policy(spec))
        plan.events = self.transitions(status)
        self.at_end(plan, spec, outcome)
        return plan

    def _plan_invalid(self, found: list[Problem]) -> Plan:
        """Plan for a job that fails because its spec is invalid and it has not started."""
        text = "; ".join(str(problem) for problem in found)
        text = f"{text}. Correct the manifest, delete the job and create it again."
        outcome = self.failure(Cause.INVALID, text)
        status = self.advance(self.status_with_counts(None), outcome=outcome)
        plan = self._cleaned_up(status, self._default_policy)
        plan.events = [
            Event("Warning", Cause.REFUSED.value, problem.event or str(problem))
            for problem in found
        ]
        return plan

    # -- afterwards ---------------------------------------------------------------------------

    @property
    def is_at_rest(self) -> bool:
        """Whether a job has finished, and nothing of it is left that runs.

        What another version has stored of such a job is then left alone, whatever this one would
        write: its status, and the children that do not run.
        """
        if not self.stored.finished or any(pod.active for pod in self.observed.pods):
            return False
        # Counts of children may follow later than the pods.
        counts = [self.observed.job.status.get(name) for name in self.live_fields]
        return not any(_counts_active(found) for found in counts)

    def _plan_finished(self, policy: CommonPolicy) -> Plan | Question:
        """Plan for a finished job: only the cleanup of pods and the time to live continue."""
        if (question := self.leave_queue()) is not None:
            return question
        numbers = self.status_with_counts(None)
        # Records are no longer kept, so every reconcile would count a restart again.
        statuses = {
            name: msgspec.structs.replace(found, restarts=self._restarts(name))
            for name, found in numbers.replica_statuses.items()
        }
        status = msgspec.structs.replace(
            numbers,
            conditions=self.stored.conditions,
            replica_statuses=statuses,
            queue=self.queue_status,
        )
        late = self.metadata.generation > self.stored.observed_generation
        if late:
            status = lifecycle.with_late_edit(status, self.metadata.generation, self.now)
        plan = self._cleaned_up(status, policy)
        edit = self._late_edit(status) if late else []
        before, after = self.observed.job.status, plan.status
        changing = set(self.live_fields) if not self.is_at_rest else set()
        if edit:
            changing.add("conditions")
        if self.queue_status != self.stored.queue:
            changing.add("queue")
        plan.status = {
            **{name: value for name, value in before.items() if name != "podRecords"},
            **{name: after[name] for name in sorted(changing) if name in after},
        }
        if late:
            plan.events = edit
        return self.with_queue(self.expired(plan, status, policy))

    def _late_edit(self, status: AnyStatus) -> list[Event]:
        """Report once for each version of the spec that it will not run."""
        before, now = self.stored.condition(lifecycle.SYNCED), status.condition(lifecycle.SYNCED)
        assert now is not None
        if before is not None and before.message == now.message:
            return []
        return [Event("Warning", now.reason, now.message)]

    def _restarts(self, name: str) -> int:
        before = self.stored.replica_statuses.get(name)
        return before.restarts if before is not None else 0

    def _cleaned_up(self, status: AnyStatus, policy: CommonPolicy) -> Plan:
        plan = Plan(status=self.document(status))
        self.clean_up(plan, policy)
        return self.complete(plan)

    # -- progress -----------------------------------------------------------------------------

    def _plan_active(self, spec: Spec, found: list[Problem]) -> Plan | Question:
        """Plan for a job that is neither finished nor suspended."""
        numbers = self.status_with_counts(spec)
        verdict = None
        if not found and self.progress_limit is not None and self.can_stall(spec, numbers):
            in_order = self.in_reading_order(spec)
            verdict = stall.assess(self.observed, self.policy(spec), self.now, in_order)
        if isinstance(verdict, Confirm | OutputQuery):
            return verdict
        restart = ""
        if isinstance(verdict, stall.Stalled):
            what = self.retry(spec, numbers, verdict)
            if isinstance(what, Outcome):
                return self._plan_end(spec, what, numbers)
            restart = f"{verdict.message}; {what}" if what else ""
            self.releasing = True
        progress = self._progress_of(spec, numbers, found, restart)
        left = self.seconds_to_start(spec, numbers, progress)
        if (outcome := self._not_starting(spec, progress, left)) is not None:
            return self._plan_end(spec, outcome)
        plan = Plan()
        waits = [left, *self.waits(spec, numbers)]
        if found or self.observed.leftovers:
            self.hold(plan)
        else:
            waits += self.write(plan, spec, numbers)
            self.gang(spec).add_to(plan)
            self.add_admission(plan)
        status = self.advance(numbers, progress=progress)
        plan.status = self.document(status)
        plan.events = [*self.news(found), *self.transitions(status)]
        if restart and self.stored.holds(lifecycle.RESTARTING):  # no transition that reports it
            plan.events.append(Event("Warning", stall.NO_PROGRESS, restart))
        plan.events += self._sync_events(spec, status, progress)
        if isinstance(verdict, stall.Wait):
            waits.append(verdict.seconds)
        if progress.reason == WAITING:
            waits.append(READ_SECONDS)
        if progress.sync_reason == Cause.FOREIGN.value:
            waits.append(RESOURCE_EXISTS_RETRY_SECONDS)
        if not self.delegates_limits:
            time_left = runpolicy.time_left(status, self.policy(spec), self.now)
            waits.append(time_left.total_seconds() if time_left is not None else None)
        plan.requeue_after = first(waits)
        return self.complete(plan)

    def _progress_of(
        self, spec: Spec, numbers: AnyStatus, found: list[Problem], restart: str
    ) -> Progress:
        """Return the state of the job.

        Args:
            spec: The desired state.
            numbers: The status with the counts of this reconcile.
            found: What is invalid in the spec.
            restart: Why the attempt was ended for making no progress, and what is restarted; empty
                if it was not.
        """
        reason, message = self.sync_problem(found) or ("", None)
        progress = msgspec.structs.replace(
            self.progress(spec, numbers, found), sync_reason=reason, sync_problem=message
        )
        if not restart:
            return self._with_leaving(self._with_gang(spec, progress))
        return msgspec.structs.replace(
            progress, reason=stall.NO_PROGRESS, message=restart, running=False, restarting=True
        )

    def _with_gang(self, spec: Spec, progress: Progress) -> Progress:
        """Say why the pods are not scheduled, if they wait for a scheduler to place all of them."""
        if progress.running or progress.restarting or not (why := self.gang(spec).waiting()):
            return progress
        if self.observed.gang is not None and self.observed.gang.problem:
            return msgspec.structs.replace(progress, message=f"{progress.message}; {why}")
        return msgspec.structs.replace(progress, reason=WAITING, message=why)

    def _with_leaving(self, progress: Progress) -> Progress:
        """Add how many pods are being ended, beside those that the message explains.

        They hold resources until then, which may take as long as their grace period.
        """
        leaving = [
            pod
            for pod in self.observed.pods
            if pod.metadata.deletion_timestamp is not None and pod.active
        ]
        # Kinds repeat the stored message while they wait for another controller.
        message = _LEAVING.sub("", progress.message)
        count = sum(pod.metadata.name not in message for pod in leaving)
        if progress.running and not progress.restarting and count:
            text = pods.being_ended(count)
            message += f" {text}." if message.endswith(".") else f"; {text}"
        return msgspec.structs.replace(progress, message=message)

    def _not_starting(self, spec: Spec, progress: Progress, left: float | None) -> Outcome | None:
        """Return the outcome of a job whose pods will not start, if that is certain.

        Args:
            spec: The desired state.
            progress: Its state.
            left: The seconds that the pods have left to become ready; None if they need none.
        """
        policy = self.policy(spec)
        if left is not None and left <= 0:
            return self.not_started_in_time(policy, progress)
        if self.is_training:
            return None
        for key, refusal in self.observed.refusals.items():
            if refusal.permanent:
                text = refusal_text(key, refusal, 1000)
                return self.failure(Cause.REFUSED, text, child=key.kind)
        return None

    def not_started_in_time(self, policy: CommonPolicy, progress: Progress) -> Outcome:
        """Return the outcome of a job whose pods were not ready in time."""
        reason, message = self.definition.reasons.word(Cause.NOT_STARTED), progress.message
        before = self.stored.condition(lifecycle.SYNCED)
        if before is not None:  # the pods were not the reason
            reason, message = before.reason, before.message
        seconds = policy.scheduling_policy.schedule_timeout_seconds
        text = f"Not started within {seconds} s: {message}"
        return Outcome(succeeded=False, reason=reason, message=text)

    # -- a spec that has not taken effect -----------------------------------------------------

    def _sync_events(self, spec: Spec, status: AnyStatus, progress: Progress) -> list[Event]:
        """Return events for a spec that has taken effect, or that could not."""
        if progress.sync_problem is not None:
            before = self.stored.condition(lifecycle.SYNCED)
            if progress.sync_reason == Cause.LEFTOVER.value or (
                before is not None and before.message == progress.sync_problem
            ):
                return []
            return [Event("Warning", progress.sync_reason, progress.sync_problem)]
        was_synced = self.stored.condition(lifecycle.SYNCED) is None
        if was_synced and status.observed_generation == self.stored.observed_generation:
            return []
        path = f"{self.policy_field}.schedulingPolicy"
        return [*self.events_on_spec_change(spec), *self.gang(spec).warnings(path)]
