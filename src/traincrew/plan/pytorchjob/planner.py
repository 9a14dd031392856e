"""The decisions for a PyTorchJob, where they differ from other kinds of training-operator.

master succeeded        -> Succeeded, when the others have ended as well, or a moment later
no master               -> the same when all workers succeeded, or one of an elastic group
metrics in the policy   -> a HorizontalPodAutoscaler, unless the job is suspended
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.api.kinds.pytorchjob import types as api
from traincrew.api.kinds.pytorchjob.definition import DEFINITION
from traincrew.api.kinds.pytorchjob.rules import problems
from traincrew.api.kinds.pytorchjob.types import WORKER, PyTorchJobSpec
from traincrew.plan.pytorchjob import children
from traincrew.plan.pytorchjob.observed import ObservedJob
from traincrew.plan.shared.gangs.job import GangSize
from traincrew.plan.shared.model import FINGERPRINT, ChildKey, Decision, Observed, Plan, Write
from traincrew.plan.shared.replicas.trainingoperator import TrainingPlanner, words
from traincrew.plan.shared.writes import patch, stages

if TYPE_CHECKING:
    from datetime import datetime

    from traincrew.api.meta import Problem
    from traincrew.plan.shared.kind import Options
    from traincrew.plan.shared.replicas.counts import ReplicasStatus
    from traincrew.plan.shared.replicas.places import Place, Replicas


def plan(observed: Observed, now: datetime, options: Options) -> Decision:
    """Decide what a job needs next."""
    return _Planner(observed, now, options).plan()


class _Planner(TrainingPlanner[PyTorchJobSpec, ObservedJob]):
    """Decides what one PyTorchJob needs next."""

    definition = DEFINITION
    words = words(api.KIND, api.REASONS)
    labels = children.LABELS
    specs = "spec.pytorchReplicaSpecs"

    def decode(self, spec: dict[str, Any]) -> PyTorchJobSpec:
        return api.decode(spec)

    def problems(self, spec: PyTorchJobSpec) -> list[Problem]:
        return problems(self.metadata, spec)

    def replicas(self, spec: PyTorchJobSpec) -> dict[str, Replicas]:
        return children.replicas(spec)

    def observe(self, spec: PyTorchJobSpec | None) -> ObservedJob:
        return ObservedJob(self.observed, spec, self.now, self.records)

    def service(self, spec: PyTorchJobSpec, place: Place) -> dict[str, Any]:
        return children.service(self.owner, spec, place)

    def pod(self, spec: PyTorchJobSpec, place: Place) -> dict[str, Any]:
        return children.pod(self.owner, spec, place, self.options.endpoint)

    # Without a master training-operator names the namespace as well.

    def running_text(self, spec: PyTorchJobSpec) -> str:
        if spec.has_master:
            return super().running_text(spec)
        return f"{api.KIND} {self.owner.namespace}/{self.owner.name} is running."

    def success_text(self, spec: PyTorchJobSpec) -> str:
        if spec.has_master:
            return super().success_text(spec)
        return f"{api.KIND} {self.owner.namespace}/{self.owner.name} successfully completed."

    def gang_size(self, spec: PyTorchJobSpec) -> GangSize:
        needed, worker = spec.total, spec.pytorch_replica_specs.get(WORKER)
        if spec.elastic_policy is not None and worker is not None:
            needed += spec.limits[0] - worker.count
        return GangSize(needed=needed, members=self.members(spec))

    # -- the autoscaler -----------------------------------------------------------------------

    def suspend(self, plan: Plan, spec: PyTorchJobSpec) -> None:
        super().suspend(plan, spec)
        for name, view in self.current(spec).autoscalers.items():
            plan.delete_child(ChildKey(children.AUTOSCALER, name), view)

    def write(self, plan: Plan, spec: PyTorchJobSpec, numbers: ReplicasStatus) -> list[float]:
        waits = super().write(plan, spec, numbers)
        plan.stages += stages(self._autoscaler(plan, spec))
        return waits

    def _autoscaler(self, plan: Plan, spec: PyTorchJobSpec) -> list[Write | None]:
        """Return the write of the autoscaler, if any; delete one that is not wanted."""
        wanted = children.autoscaler(self.owner, spec)
        for name, view in self.current(spec).autoscalers.items():
            key = ChildKey(children.AUTOSCALER, name)
            if wanted is None:
                plan.delete_child(key, view)
                continue
            mark = wanted["metadata"]["annotations"][FINGERPRINT]
            if view.metadata.annotations.get(FINGERPRINT) == mark:
                return []
            values = {("spec",): wanted["spec"], ("metadata", "annotations", FINGERPRINT): mark}
            return [patch(key, view, values)]
        return [Write(create=wanted)] if wanted is not None else []


__all__ = ["plan"]
