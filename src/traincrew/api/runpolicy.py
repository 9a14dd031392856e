"""The run policy: the same fields on every kind.

The vocabulary is Kubeflow's (``RunPolicy`` of kubeflow/common). A kind has it inline in ``spec``
where its users expect it there, by extending `CommonPolicy`, and as ``spec.runPolicy`` elsewhere;
the defaults reproduce the previous behavior of a kind. `traincrew.plan.shared.runpolicy` implements
the policy.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal, Protocol

from msgspec import NODEFAULT, Meta, Struct, structs

from traincrew.api.reasons import Cause

INT32_MAX = 2**31 - 1
Positive = Annotated[int, Meta(ge=1, le=INT32_MAX)]
NonNegative = Annotated[int, Meta(ge=0, le=INT32_MAX)]
Seconds = Annotated[int, Meta(ge=1, le=2**53 - 1)]
Quantity = Annotated[int | str, Meta(description="Amount, such as 4, 500m or 16Gi.")]
CleanPodPolicy = Literal["Running", "None", "All"]
ProgressSource = Literal["Any", "Reports"]

DEFAULT_SCHEDULE_TIMEOUT_SECONDS = 1800
"""Default of `StartPolicy.schedule_timeout_seconds`."""


class SchedulingPolicy(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """How the pods of a job are scheduled; `traincrew.api.scheduling` checks it."""

    min_available: Annotated[
        NonNegative | None,
        Meta(
            description=(
                "Number of pods that are scheduled together or not at all (a gang), by a scheduler"
                " of the cluster that can do so; 0 means that none is asked for. Defaults, if queue"
                " or minResources is set, to the number of pods without which the job cannot"
                " train. Without such a scheduler, pods are released after a while if they"
                " have room and others have none."
            )
        ),
    ] = None
    queue: Annotated[
        str | None,
        Meta(description="Queue of the gang. KAI and Volcano honor it."),
    ] = None
    min_resources: Annotated[
        dict[str, Quantity] | None,
        Meta(
            description=(
                "Resources that must be free before the gang is scheduled, such as cpu: 8. The"
                " coscheduling plugin and Volcano honor it."
            ),
        ),
    ] = None
    priority_class: Annotated[
        str | None,
        Meta(
            description=(
                "PriorityClass of the job's pods. A priorityClassName in a template takes"
                " precedence."
            )
        ),
    ] = None
    schedule_timeout_seconds: Annotated[
        Positive | None,
        Meta(
            description=(
                "Number of seconds within which a worker must be running for the first time; after"
                f" that the job fails with reason {Cause.NOT_STARTED.value}. If it is not set,"
                " there is no limit. The coscheduling plugin is given it as well."
            ),
        ),
    ] = None

    @property
    def wants_gang(self) -> bool:
        """Whether the pods are to be scheduled together."""
        return bool(self.min_available or self.queue or self.min_resources)


class StartPolicy(SchedulingPolicy, kw_only=True, frozen=True):
    """The same, of a kind whose training starts when all workers are ready."""

    schedule_timeout_seconds: Annotated[
        Positive,
        Meta(
            description=(
                "Number of seconds within which the workers must become ready; after that the"
                f" job fails with reason {Cause.NOT_STARTED.value}. Defaults to"
                f" {DEFAULT_SCHEDULE_TIMEOUT_SECONDS}. Another value is given to the coscheduling"
                " plugin as well."
            ),
        ),
    ] = DEFAULT_SCHEDULE_TIMEOUT_SECONDS


class CommonPolicy(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """Policies for suspending, retrying, timing out and cleaning up a job."""

    suspend: Annotated[
        bool,
        Meta(
            description=(
                "Whether the job is suspended. Setting it to true deletes the job's pods;"
                " setting it back to false creates them again. Defaults to false."
            )
        ),
    ] = False
    ttl_seconds_after_finished: Annotated[
        NonNegative | None,
        Meta(
            description=(
                "Number of seconds after which a finished job is deleted, with everything it"
                " owns. If it is not set, the job is not deleted."
            ),
        ),
    ] = None
    active_deadline_seconds: Annotated[
        Seconds | None,
        Meta(
            description=(
                "Number of seconds that the job may be active, counted from status.startTime,"
                f" before it fails with reason {Cause.DEADLINE.value}. The time while the job is"
                " suspended does not count."
            ),
        ),
    ] = None
    progress_deadline_seconds: Annotated[
        Positive | None,
        Meta(
            description=(
                "Number of seconds that a running job may show no sign of life before this attempt"
                f" ends with reason {Cause.NO_PROGRESS.value}: no container of its pods has"
                " written a line of output, the status of no pod has changed, and the program has"
                " reported no advance. It is retried within the backoff"
                " limit, after which the job fails. Nothing is ended as long as the output of any"
                " running pod cannot be read. If it is not set, there is no such deadline."
            ),
        ),
    ] = None
    progress_source: Annotated[
        ProgressSource | None,
        Meta(
            description=(
                "What counts as a sign of life for progressDeadlineSeconds. Any (default): output,"
                " status changes of pods, and reports of the program that advance. Reports: once"
                " the program has reported its progress in this attempt, output does not count any"
                " more, so that a program is ended that prints warnings while it hangs. A report"
                " advances if its percentage or a metric differs from the report before."
            ),
        ),
    ] = None
    backoff_limit: Annotated[
        NonNegative | None,
        Meta(
            description=(
                "Number of times that failed pods are recreated, and containers restarted in their"
                f" pods, before the job fails with reason {Cause.BACKOFF_LIMIT.value}. If it is not"
                " set, there is no limit."
            )
        ),
    ] = None
    clean_pod_policy: Annotated[
        CleanPodPolicy,
        Meta(
            description=(
                "Which pods are deleted when the job finishes. Running (default): the pods"
                " that still run; finished pods stay, with their logs. None: no pods. All: all"
                " pods."
            ),
        ),
    ] = "Running"
    scheduling_policy: Annotated[
        SchedulingPolicy,
        Meta(description="Policy for scheduling the pods."),
    ] = SchedulingPolicy()


class RunPolicy(CommonPolicy, kw_only=True, frozen=True):
    """The run policy of a kind whose training starts when all workers are ready."""

    backoff_limit: Annotated[
        NonNegative | None,
        Meta(
            description=(
                "Number of retries of the master before the job fails. Defaults to 6, as for a Job."
            )
        ),
    ] = None
    scheduling_policy: Annotated[
        StartPolicy,
        Meta(description="Policy for scheduling the pods."),
    ] = StartPolicy()


class HasRunPolicy(Protocol):
    """The ``spec`` of a kind that has the run policy in a field of its own."""

    @property
    def run_policy(self) -> CommonPolicy:
        """``spec.runPolicy``."""


def policy_of(spec: CommonPolicy | HasRunPolicy) -> CommonPolicy:
    """Return the run policy of a job, wherever its kind has it."""
    return spec if isinstance(spec, CommonPolicy) else spec.run_policy


@cache
def policy_path(kind: type[Struct]) -> str:
    """Return the path of the run policy, for messages.

    Args:
        kind: The type of ``spec``.
    """
    has_own = any(each.name == "run_policy" for each in structs.fields(kind))
    return "spec.runPolicy" if has_own else "spec"


@cache
def default_policy(kind: type[Struct]) -> CommonPolicy:
    """Return the run policy of a job that writes none.

    Args:
        kind: The type of its ``spec``.
    """
    defaults = {each.name: _default(each) for each in structs.fields(kind)}
    if not issubclass(kind, CommonPolicy):
        policy: CommonPolicy = defaults.get("run_policy") or CommonPolicy()
        return policy
    names = (each.name for each in structs.fields(CommonPolicy))
    return CommonPolicy(**{name: defaults[name] for name in names})


def _default(field: structs.FieldInfo) -> Any:
    return field.default_factory() if field.default_factory is not NODEFAULT else field.default
