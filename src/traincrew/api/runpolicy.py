"""The run policy: the same words on every kind.

The vocabulary is Kubeflow's (``RunPolicy`` of kubeflow/common). A kind has it inline in ``spec``
where its users know it there, by extending `CommonPolicy`, and as ``spec.runPolicy`` elsewhere; the
defaults reproduce what a kind did before. What the words mean is decided in
`traincrew.plan.runpolicy`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

INT32_MAX = 2**31 - 1
Positive = Annotated[int, Meta(ge=1, le=INT32_MAX)]
NonNegative = Annotated[int, Meta(ge=0, le=INT32_MAX)]
Seconds = Annotated[int, Meta(ge=1, le=2**53 - 1)]
CleanPodPolicy = Literal["Running", "None", "All"]

DEFAULT_SCHEDULE_TIMEOUT_SECONDS = 1800
"""How long workers may take to become ready when nothing else is said."""


class SchedulingPolicy(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """How the pods of a job are brought onto nodes."""

    schedule_timeout_seconds: Annotated[
        Positive,
        Meta(
            description=(
                "Seconds the workers may take to become ready before the job fails with reason"
                f" WorkersNotReady. Default {DEFAULT_SCHEDULE_TIMEOUT_SECONDS}."
            ),
        ),
    ] = DEFAULT_SCHEDULE_TIMEOUT_SECONDS


class CommonPolicy(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """When a job runs, how often it is tried, and what is left of it."""

    suspend: Annotated[
        bool,
        Meta(description="True stops the job and removes its pods; false starts it (again)."),
    ] = False
    ttl_seconds_after_finished: Annotated[
        NonNegative | None,
        Meta(
            description=(
                "Delete the job, and everything it made, this many seconds after it finished."
                " Default: keep it."
            ),
        ),
    ] = None
    active_deadline_seconds: Annotated[
        Seconds | None,
        Meta(
            description=(
                "Fail the job with reason DeadlineExceeded when it has been active this long."
                " Counts from status.startTime; suspended time is not counted."
            ),
        ),
    ] = None
    backoff_limit: Annotated[
        NonNegative | None,
        Meta(description="How often a failed master is tried again. Default 6, as for a Job."),
    ] = None
    clean_pod_policy: Annotated[
        CleanPodPolicy,
        Meta(
            description=(
                "Which pods go when the job has finished. Running: those still running, so finished"
                " ones stay for their logs. None: no pod. All: every pod."
            ),
        ),
    ] = "Running"


class RunPolicy(CommonPolicy, kw_only=True, frozen=True):
    """The run policy of a kind that waits for its workers before it begins."""

    scheduling_policy: Annotated[
        SchedulingPolicy,
        Meta(description="How the pods are brought onto nodes."),
    ] = SchedulingPolicy()
