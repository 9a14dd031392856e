"""The observed state of a PyTorchJob: which pods decide, and if they have succeeded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.api.kinds.pytorchjob.types import CONTAINER, MASTER, WORKER
from traincrew.plan.pytorchjob.children import AUTOSCALER, replicas
from traincrew.plan.shared.replicas.states import State
from traincrew.plan.shared.replicas.trainingoperator import TrainingReplicas

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from traincrew.api.kinds.pytorchjob.types import PyTorchJobSpec
    from traincrew.plan.shared.model import Observed
    from traincrew.plan.shared.podrecords import PodRecord
    from traincrew.plan.shared.replicas.places import Place
    from traincrew.plan.shared.views import ChildView


class ObservedJob(TrainingReplicas):
    """One job with its children, as a reconcile sees them.

    Args:
        observed: The children.
        spec: The desired state; None if it no longer matters.
        now: The time.
        records: The stored pod records, by the key of their place.
    """

    named = (CONTAINER,)

    def __init__(
        self,
        observed: Observed,
        spec: PyTorchJobSpec | None,
        now: datetime,
        records: Mapping[str, PodRecord],
    ) -> None:
        super().__init__(observed, replicas(spec) if spec is not None else {}, now, records)
        self._is_group = spec is not None and spec.elastic_policy is not None
        self.autoscalers: dict[str, ChildView] = {
            key.name: view for key, view in observed.children.items() if key.kind == AUTOSCALER
        }

    @property
    def deciding(self) -> dict[Place, State]:
        """The states of the master, or of the workers without one."""
        return self.of_type(MASTER) or self.of_type(WORKER)

    @property
    def has_succeeded(self) -> bool:
        """Whether enough of them have succeeded: all, or one of an elastic group."""
        if self._is_group and MASTER not in self.replicas:
            return State.SUCCEEDED in self.deciding.values()
        return super().has_succeeded
