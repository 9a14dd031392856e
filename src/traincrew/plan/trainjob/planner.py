"""What a TrainJob is like, where it differs from other kinds.

runtime missing       -> wait for it
JobSet missing        -> create it, from job and runtime; suspended, if the job is
JobSet finished       -> finish likewise
suspended, resumed    -> suspend the JobSet, resume it; then it takes over changes
deadline exceeded     -> Failed; delete the JobSet
"""

from __future__ import annotations

import difflib
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from traincrew.api.kinds.trainjob import types as api
from traincrew.api.kinds.trainjob.definition import DEFINITION
from traincrew.api.kinds.trainjob.rules import problems
from traincrew.api.kinds.trainjob.runtime import Runtime, decode_runtime
from traincrew.api.kinds.trainjob.types import CLUSTER_RUNTIME, UNSUPPORTED_RUNTIME
from traincrew.api.meta import Problem, format_time
from traincrew.api.reasons import Cause
from traincrew.plan.shared import lifecycle, pods, runpolicy
from traincrew.plan.shared.lifecycle import Outcome, Progress
from traincrew.plan.shared.model import (
    FINGERPRINT,
    ChildKey,
    Decision,
    Event,
    ObjectKey,
    Observed,
    Plan,
    Write,
)
from traincrew.plan.shared.planner import JobPlanner
from traincrew.plan.shared.views import ConfigMapView
from traincrew.plan.shared.writes import annotate, patch, stages, with_field
from traincrew.plan.trainjob import status as words
from traincrew.plan.trainjob.children import children, fingerprint, hosts_name
from traincrew.plan.trainjob.status import TrainJobStatus, status_with_counts
from traincrew.plan.trainjob.views import JobSetView

if TYPE_CHECKING:
    from datetime import datetime

    from traincrew.api.kinds.trainjob.types import TrainJobSpec
    from traincrew.api.runpolicy import CommonPolicy
    from traincrew.plan.shared.kind import Options
    from traincrew.plan.shared.writes import Values

RUNTIME_SECONDS = 5.0
"""Seconds until a runtime that does not exist is looked for again; nobody tells that it exists."""
_SIMILARITY = 0.75
DEPRECATED = "TrainingRuntimeDeprecated"
_POLICY_PAGE = (
    "https://www.kubeflow.org/docs/components/trainer/operator-guides/runtime/"
    "#runtime-deprecation-policy"
)


def plan(observed: Observed, now: datetime, options: Options) -> Decision:
    """Decide what a job needs next."""
    return _Planner(observed, now, options).plan()


class _Planner(JobPlanner[api.TrainJobSpec, TrainJobStatus]):
    """Describes one TrainJob."""

    definition = DEFINITION
    status_type = TrainJobStatus
    live_fields = (*JobPlanner.live_fields, "jobsStatus")

    # -- the kind -----------------------------------------------------------------------------

    def decode(self, spec: dict[str, Any]) -> TrainJobSpec:
        return api.decode(spec)

    @cached_property
    def key(self) -> ChildKey:
        """The JobSet."""
        return ChildKey("JobSet", self.owner.name)

    @cached_property
    def jobset(self) -> JobSetView | None:
        """The JobSet, if it exists."""
        return self.observed.child(self.key, JobSetView)

    def references(self, spec: TrainJobSpec) -> tuple[ObjectKey, ...]:
        """Return the runtime, while the JobSet may be made or changed, or its hosts are missing."""
        if not spec.runtime_ref.is_supported:
            return ()
        jobset = self.jobset
        runs = jobset is not None and not spec.suspend and not jobset.is_suspended
        if runs and not self._lacks_hosts:
            return ()
        named = ObjectKey(spec.runtime_ref.kind, spec.runtime_ref.name)
        similar = self._similar(spec)
        return (named,) if similar in {None, named} else (named, similar)

    def _similar(self, spec: TrainJobSpec) -> ObjectKey | None:
        """Return the runtime of Trainer's own that may be meant."""
        shipped = [each["metadata"]["name"] for each in DEFINITION.objects]
        near = difflib.get_close_matches(spec.runtime_ref.name, shipped, n=1, cutoff=_SIMILARITY)
        return ObjectKey(CLUSTER_RUNTIME, near[0]) if near else None

    @property
    def _lacks_hosts(self) -> bool:
        """Whether pods of the JobSet cannot start again: the ConfigMap that they mount is gone."""
        key = ChildKey("ConfigMap", hosts_name(self.owner.name))
        missing = key not in self.observed.children
        return missing and self.jobset is not None and self.jobset.mounts(key.name)

    def _stored_runtime(self, spec: TrainJobSpec) -> dict[str, Any] | None:
        key = ObjectKey(spec.runtime_ref.kind, spec.runtime_ref.name)
        return self.observed.objects.get(key)

    def _runtime(self, spec: TrainJobSpec) -> Runtime | None:
        """Return the runtime, if it is known and can be read."""
        if (found := self._stored_runtime(spec)) is None:
            return None
        try:
            return decode_runtime(found)
        except msgspec.ValidationError:
            return None

    def problems(self, spec: TrainJobSpec) -> list[Problem]:
        if not spec.runtime_ref.is_supported:
            return [Problem("spec.runtimeRef", UNSUPPORTED_RUNTIME)]
        if (found := self._stored_runtime(spec)) is None:
            return []
        try:
            return problems(spec, decode_runtime(found))
        except msgspec.ValidationError as error:
            text = f"{spec.runtime_ref.kind} {spec.runtime_ref.name} is invalid: {error}"
            return [Problem("spec.runtimeRef", text)]

    def suspended(self, spec: TrainJobSpec) -> TrainJobSpec:
        return msgspec.structs.replace(spec, suspend=True)

    @property
    def has_started(self) -> bool:
        return self.jobset is not None

    @property
    def is_training(self) -> bool:
        return runpolicy.has_run(self.stored)

    def document(self, status: TrainJobStatus) -> dict[str, Any]:
        return words.document(status)

    def status_with_counts(
        self, spec: TrainJobSpec | None, *, wanted: bool = True
    ) -> TrainJobStatus:
        total = self.jobset.pods if self.jobset is not None else 0
        if spec is not None and self.jobset is None:
            total = (spec.trainer.num_nodes if spec.trainer is not None else None) or 1
        return status_with_counts(
            self.stored, self.jobset, self.observed.pods, total if wanted else 0
        )

    def deadline_text(self, policy: CommonPolicy) -> str:  # noqa: ARG002
        return words.DEADLINE_TEXT

    # -- the end ------------------------------------------------------------------------------

    def outcome(self, spec: TrainJobSpec, found: list[Problem]) -> Outcome | None:  # noqa: ARG002
        if self.jobset is None:
            return None
        for kind in ("Completed", "Failed"):
            said = self.jobset.condition(kind)
            if said is not None:
                message = str(said.get("message") or "")
                if kind == "Failed":
                    message = self._with_failures(message)
                return Outcome(
                    succeeded=kind == "Completed",
                    reason=str(said.get("reason") or kind),
                    message=message,
                    at=said.get("lastTransitionTime"),
                )
        return None

    def _with_failures(self, message: str) -> str:
        """Add why pods have failed, unless the JobSet says it."""
        failed = [pod for pod in self.observed.pods if pod.status.phase == "Failed"]
        failed.sort(key=lambda pod: (pods.ended_at(pod), pod.metadata.name))
        why = pods.first_few(pods.failures(failed))
        return message if not why or why in message else f"{message}. {why}"

    def clean_up(self, plan: Plan, policy: CommonPolicy) -> None:  # noqa: ARG002
        failed = self.stored.condition(lifecycle.FAILED)
        late = self.definition.reasons.word(Cause.DEADLINE)
        if self.jobset is not None and failed is not None and failed.reason == late:
            plan.delete_child(self.key, self.jobset)

    # -- progress -----------------------------------------------------------------------------

    def sync_problem(self, found: list[Problem]) -> tuple[str, str] | None:
        spec = api.decode(self.observed.job.spec)
        if self.references(spec) and self._stored_runtime(spec) is None:
            ref = spec.runtime_ref
            text = "must be created before the job can run"
            text = f"spec.runtimeRef: {ref.kind} {ref.name} is not found; it {text}"
            similar = self._similar(spec)
            if similar is not None and self.observed.objects.get(similar) is not None:
                text = f"{text}. Did you mean {similar.kind} {similar.name}?"
            return self.definition.reasons.word(Cause.REFUSED), text
        return super().sync_problem(found)

    def progress(
        self,
        spec: TrainJobSpec,  # noqa: ARG002
        numbers: TrainJobStatus,  # noqa: ARG002
        found: list[Problem],
    ) -> Progress:
        members = self.observed.pods
        running = any(pod.running for pod in members)
        reason = f"{api.KIND}Running" if running else "WaitingForJobSet"
        text = self._text()
        problem = self.sync_problem(found)
        if problem is not None and not running:
            reason, text = problem
        restarts = self.jobset.condition("RestartingJobSet") if self.jobset is not None else None
        if restarts is not None:
            reason, text = str(restarts.get("reason")), str(restarts.get("message"))
        return Progress(
            reason=reason,
            message=text,
            # The JobSet ends some moments after the last pod.
            running=running or (self.stored.holds(lifecycle.RUNNING) and self._ready > 0),
            restarting=restarts is not None,
            started_at=self.stored.start_time or format_time(self.now),
        )

    @property
    def _ready(self) -> int:
        """The number of pods that are ready, or have succeeded."""
        return sum(pod.ready or pod.status.phase == "Succeeded" for pod in self.observed.pods)

    def _text(self) -> str:
        """Return what the pods wait for, if they do."""
        jobset, members = self.jobset, self.observed.pods
        if jobset is None:
            return "The JobSet is being created."
        if not members and (said := jobset.status.get("message")):
            return str(said)
        troubles = pods.list_not_ready(
            [pod.metadata.name for pod in members],
            members,
            self.observed.rejections,
            lambda pod: pods.not_ready_reason(pod, self.now),
        )
        return "; ".join(filter(None, (f"{self._ready}/{jobset.pods} pods ready", troubles)))

    def suspend(self, plan: Plan, spec: TrainJobSpec) -> None:
        self._add_writes(plan, spec)

    def write(self, plan: Plan, spec: TrainJobSpec, numbers: TrainJobStatus) -> list[float]:  # noqa: ARG002
        self._add_writes(plan, spec)
        missing = self.references(spec) and self._stored_runtime(spec) is None
        return [RUNTIME_SECONDS] if missing else []

    def _add_writes(self, plan: Plan, spec: TrainJobSpec) -> None:
        """Add what the JobSet needs, and the JobSet, or its changes."""
        runtime = self._runtime(spec)
        if runtime is None:
            if self.jobset is not None and self.jobset.is_suspended != spec.suspend:
                suspends: Values = {("spec", "suspend"): spec.suspend}
                plan.stages = stages([patch(self.key, self.jobset, suspends)])
            return
        wanted = children(self.owner, spec, runtime, self.options.endpoint)
        first: list[Write | None] = []
        if wanted.config is not None:
            first.append(with_field(self.observed, wanted.config, ConfigMapView, "data"))
        if wanted.secret is not None and self.jobset is None:
            first.append(Write(create=wanted.secret, key_pair=True))
        plan.stages = stages(first, [self._jobset_write(wanted.jobset, spec, runtime)])

    def _jobset_write(
        self, wanted: dict[str, Any], spec: TrainJobSpec, runtime: Runtime
    ) -> Write | None:
        found = self.jobset
        if found is None:
            return Write(create=wanted)
        values: Values = {}
        mark = fingerprint(spec, runtime)
        if found.metadata.annotations.get(FINGERPRINT) != mark and found.is_suspended:
            values[("spec", "replicatedJobs")] = wanted["spec"]["replicatedJobs"]
            values |= annotate(found, {FINGERPRINT: mark})
        if found.is_suspended != spec.suspend:
            values[("spec", "suspend")] = spec.suspend
        return patch(self.key, found, values)

    # -- events -------------------------------------------------------------------------------

    def events_on_spec_change(self, spec: TrainJobSpec) -> list[Event]:
        runtime = self._runtime(spec)
        if runtime is None or not runtime.is_deprecated:
            return []
        text = (
            f'Referenced {runtime.kind} "{runtime.name}" is deprecated and will be removed in a'
            f" future release of Kubeflow Trainer. See runtime deprecation policy: {_POLICY_PAGE}"
        )
        return [Event("Warning", DEPRECATED, text)]


__all__ = ["plan"]
