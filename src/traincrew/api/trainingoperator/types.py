"""The fields that the kinds of training-operator v1 have in common.

They are those of its ``pkg/apis/kubeflow.org/v1/common_types.go``: docs/design/todays-manifests.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta

from traincrew.api.kind import MULTI_KUEUE, Manager, Project
from traincrew.api.reasons import Cause, Reasons
from traincrew.api.runpolicy import (
    CleanPodPolicy,
    CommonPolicy,
    NonNegative,
    Positive,
    SchedulingPolicy,
    Seconds,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Protocol

    class TypedReplicas(Protocol):
        """Identical pods of one type."""

        @property
        def template(self) -> dict[str, Any]: ...  # noqa: D102 - as the user has written it

        @property
        def count(self) -> int: ...  # noqa: D102 - the number of pods, with its default

    ReplicaSpecs = Mapping[str, TypedReplicas]


GROUP = "kubeflow.org"
VERSION = "v1"
API_VERSION = f"{GROUP}/{VERSION}"
PROJECT = Project(
    name="training-operator",
    # manifests/base/deployment.yaml of training-operator
    deployments="control-plane=kubeflow-training-operator",
    # cmd/training-operator.v1/main.go
    lease="1ca428e5.training-operator.kubeflow.org",
)
HERE = "kubeflow.org/training-operator"
"""Value of ``spec.runPolicy.managedBy`` of jobs that are not managed elsewhere."""
MANAGER = Manager(path=("runPolicy", "managedBy"), here=HERE)

MAX_REPLICAS = 5000
"""Maximum per type: the size of the status still works with this many."""
MAX_TYPES = 8
MAX_HOST_NAME = 63
"""``<name>-<type>-<index>`` is a host name, and the name of a Service."""

RestartPolicy = Literal["Always", "OnFailure", "Never", "ExitCode"]
RESTART_POLICIES = (
    "OnFailure, Always: containers are restarted in their pod, and a pod that is evicted is"
    " recreated. ExitCode: a pod whose container exits with 128 or more, or that is evicted, is"
    " recreated; with 1 to 127 the job fails. Never: the first failure ends the job."
)
"""What each restart policy does."""


def reasons(kind: str) -> Reasons:
    """Return the reasons of training-operator: it has one for every end of a kind's jobs."""
    failed = f"{kind}Failed"
    return Reasons(
        {
            Cause.DEADLINE: failed,
            Cause.BACKOFF_LIMIT: failed,
            Cause.REFUSED: "FailedCreate{kind}",
            Cause.PROGRAM: failed,
        }
    )


class TrainingRunPolicy(CommonPolicy, kw_only=True, frozen=True):
    """The run policy of a job."""

    active_deadline_seconds: Annotated[
        Seconds | None,
        Meta(
            description=(
                "Number of seconds that the job may be active, counted from status.startTime,"
                " before it fails and all its pods are deleted. The time while the job is suspended"
                " does not count."
            ),
        ),
    ] = None
    progress_deadline_seconds: Annotated[
        Positive | None,
        Meta(
            description=(
                "Number of seconds that a running job may show no sign of life before it fails with"
                f" reason {Cause.NO_PROGRESS.value}: no container of its pods has written a line of"
                " output, the status of no pod has changed, and the program has reported no"
                " advance. Nothing is ended as long as the output of any running pod cannot be"
                " read. If it is not set, there is no such deadline. training-operator does not"
                " have this field."
            ),
        ),
    ] = None
    backoff_limit: Annotated[
        NonNegative | None,
        Meta(
            description=(
                "Number of times that failed pods are recreated, and containers restarted in"
                " their pods, before the job fails and all its pods are deleted. Evicted and"
                " deleted pods do not count. If it is not set, there is no limit."
            ),
        ),
    ] = None
    clean_pod_policy: Annotated[
        CleanPodPolicy,
        Meta(
            description=(
                "Which pods are deleted, with their Services, when the job finishes. None"
                " (default): no pods, those that still run included. Running: the pods that still"
                " run. All: all pods."
            ),
        ),
    ] = "None"
    scheduling_policy: Annotated[
        SchedulingPolicy,
        Meta(description="Policy for scheduling the pods."),
    ] = SchedulingPolicy()
    managed_by: Annotated[
        Annotated[str, Meta(max_length=63)] | None,
        Meta(
            description=(
                f"Who manages the job. {HERE} (default): the operator of this cluster."
                f" {MULTI_KUEUE}: MultiKueue, which runs it on another cluster; it is left alone"
                " here. It cannot be changed."
            ),
        ),
    ] = None
