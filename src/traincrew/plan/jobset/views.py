"""The Jobs of a JobSet as its plan observes them: with what may change while it is suspended."""

from __future__ import annotations

from typing import Any

from msgspec import field

from traincrew.api.meta import ObjectMeta, View
from traincrew.plan.shared.kind import JOBS
from traincrew.plan.shared.views import BatchJobView, JobSpecView


class PodSchedulingView(View, frozen=True, gc=False, kw_only=True):
    """Where pods may run, and when."""

    node_selector: dict[str, str] = field(default_factory=dict)
    tolerations: list[dict[str, Any]] = field(default_factory=list)
    scheduling_gates: list[dict[str, Any]] = field(default_factory=list)


class PodTemplateView(View, frozen=True, gc=False, kw_only=True):
    """The part of a Job's pod template that may change."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodSchedulingView = field(default_factory=PodSchedulingView)


class ReplicatedJobSpecView(JobSpecView, frozen=True, gc=False, kw_only=True):
    """``spec`` of a Job."""

    template: PodTemplateView = field(default_factory=PodTemplateView)


class ReplicatedJobView(BatchJobView, frozen=True, gc=False, kw_only=True):
    """A Job of a JobSet."""

    spec: ReplicatedJobSpecView = field(default_factory=ReplicatedJobSpecView)


REPLICATED_JOBS = JOBS._replace(view=ReplicatedJobView)
