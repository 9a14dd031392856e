"""The decisions for an MXJob, where they differ from other kinds of training-operator.

scheduler succeeded   -> Succeeded, when the others have ended as well, or a moment later
no scheduler          -> the same when all workers succeeded, or all tuners if there are none
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import structs

from traincrew.api.kinds.mxjobv1 import types as api
from traincrew.api.kinds.mxjobv1.definition import DEFINITION
from traincrew.api.kinds.mxjobv1.rules import problems
from traincrew.api.kinds.mxjobv1.types import CONTAINER, SCHEDULER, TUNER, WORKER, MXJobSpec
from traincrew.plan.mxjobv1 import children
from traincrew.plan.shared.gangs.job import GangSize
from traincrew.plan.shared.replicas.trainingoperator import (
    TrainingPlanner,
    TrainingReplicas,
    words,
)

if TYPE_CHECKING:
    from datetime import datetime

    from traincrew.api.meta import Problem
    from traincrew.plan.shared.kind import Options
    from traincrew.plan.shared.model import Decision, Observed
    from traincrew.plan.shared.replicas.places import Place, Replicas
    from traincrew.plan.shared.replicas.states import State


def plan(observed: Observed, now: datetime, options: Options) -> Decision:
    """Decide what a job needs next."""
    return _Planner(observed, now, options).plan()


class _Observed(TrainingReplicas):
    """The observed state of an MXJob."""

    named = (CONTAINER,)

    @property
    def deciding(self) -> dict[Place, State]:
        return next(filter(None, map(self.of_type, (SCHEDULER, WORKER, TUNER))), self.states)


class _Planner(TrainingPlanner[MXJobSpec, _Observed]):
    """Decides what one MXJob needs next."""

    definition = DEFINITION
    # Where pods failed, training-operator writes the kind in lower case.
    words = structs.replace(words(api.KIND, api.REASONS), name=api.KIND.lower())
    labels = children.LABELS
    specs = "spec.mxReplicaSpecs"

    def decode(self, spec: dict[str, Any]) -> MXJobSpec:
        return api.decode(spec)

    def problems(self, spec: MXJobSpec) -> list[Problem]:
        return problems(self.metadata, spec)

    def replicas(self, spec: MXJobSpec) -> dict[str, Replicas]:
        return children.replicas(spec)

    def observe(self, spec: MXJobSpec | None) -> _Observed:
        desired = children.replicas(spec) if spec is not None else {}
        return _Observed(self.observed, desired, self.now, self.records)

    def service(self, spec: MXJobSpec, place: Place) -> dict[str, Any]:
        return children.service(self.owner, spec, place)

    def pod(self, spec: MXJobSpec, place: Place) -> dict[str, Any]:
        return children.pod(self.owner, spec, place, self.options.endpoint)

    def gang_size(self, spec: MXJobSpec) -> GangSize:
        return GangSize(needed=spec.total, members=self.members(spec))


__all__ = ["plan"]
