"""The values of an installation of the operator.

One type defines them for every format: its defaults are used in `deploy/` and `config/`, its fields
become the chart's ``values.yaml`` and ``values.schema.json``, and `traincrew manifests --values`
reads it.
"""

from __future__ import annotations

# Over 400 lines: one type with the descriptions of all its fields.
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from traincrew.operator.kinds import PROJECT_KINDS
from traincrew.operator.options import GIT_IMAGE, HELPER_IMAGE, OperatorOptions
from traincrew.plan.shared.schedulers import Mode  # noqa: TC001 - decoded

NAME = "chainer-operator"
"""As in kubeflow/chainer-operator, so that an installation is replaced, not duplicated."""

_DNS_LABEL = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_REPOSITORY = r"^[a-zA-Z0-9][-a-zA-Z0-9._/:]*$"
_TAG = r"^([a-zA-Z0-9_][-a-zA-Z0-9._]*)?$"
_DIGEST = "^(sha256:[0-9a-f]{64})?$"

Documents = list[dict[str, Any]]


class _Values(Struct, rename="camel", kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Base of values: spelled as in YAML, unknown fields are refused."""


Repository = Annotated[
    str, Meta(pattern=_REPOSITORY, description="Name of the image, with its registry.")
]
Tag = Annotated[
    str, Meta(pattern=_TAG, max_length=128, description="Empty: the version of the chart.")
]
Digest = Annotated[str, Meta(pattern=_DIGEST, description="sha256:..., used instead of the tag.")]


class Image(_Values, frozen=True):
    """The operator's image."""

    repository: Repository = "traincrew/traincrew"
    tag: Tag = ""
    digest: Digest = ""
    pull_policy: Annotated[
        Literal["Always", "IfNotPresent", "Never"], Meta(description="Image pull policy.")
    ] = "IfNotPresent"


class HelperImage(_Values, frozen=True):
    """Image of the init containers."""

    repository: Repository = HELPER_IMAGE.rpartition(":")[0]
    tag: Tag = ""
    digest: Digest = ""


class GitImage(_Values, frozen=True):
    """Image of the init containers that fetch code."""

    repository: Repository = GIT_IMAGE.rpartition(":")[0]
    tag: Tag = ""
    digest: Digest = ""


class Switch(_Values, frozen=True):
    """An optional part."""

    enabled: Annotated[bool, Meta(description="Whether to install it.")] = True


ElectionTime = Annotated[str, Meta(pattern="^$|^[0-9]+(s|m)$")]


class Election(Switch, frozen=True):
    """Leader election and its times; empty ones are the operator's defaults."""

    lease_duration: Annotated[
        ElectionTime,
        Meta(description="Time without a renewal after which another one takes over, such as 15s."),
    ] = ""
    renew_deadline: Annotated[
        ElectionTime,
        Meta(description="Time without a renewal after which the leader gives up, such as 10s."),
    ] = ""
    retry_period: Annotated[
        ElectionTime, Meta(description="Time between two renewals, such as 2s.")
    ] = ""


class ServiceMonitor(_Values, frozen=True):
    """A ServiceMonitor for the Prometheus operator."""

    enabled: Annotated[bool, Meta(description="Needs the CRDs of the Prometheus operator.")] = False
    interval: Annotated[
        str, Meta(pattern="^([0-9]+(ms|s|m|h))+$", description="Time between two scrapes.")
    ] = "30s"
    labels: Annotated[
        dict[str, str], Meta(description="Labels by which your Prometheus selects it.")
    ] = field(default_factory=dict)


class PrometheusRule(_Values, frozen=True):
    """Alerts for the Prometheus operator."""

    enabled: Annotated[bool, Meta(description="Needs the CRDs of the Prometheus operator.")] = False
    labels: Annotated[
        dict[str, str], Meta(description="Labels by which your Prometheus selects it.")
    ] = field(default_factory=dict)


class SecureMetrics(_Values, frozen=True):
    """Metrics over HTTPS, for clients whose token may read them."""

    enabled: Annotated[
        bool,
        Meta(
            description=(
                "Ask the API server about each client (TokenReview, SubjectAccessReview); the"
                " operator gets the permissions for it. The port for metrics and probes then serves"
                " probes only. Bind the ClusterRole NAME-metrics-reader to your Prometheus."
            )
        ),
    ] = False
    port: Annotated[int, Meta(ge=1, le=65535, description="Port of /metrics over HTTPS.")] = 8443


class Metrics(_Values, frozen=True):
    """Metrics and probes."""

    port: Annotated[
        int, Meta(ge=1, le=65535, description="Port of /metrics, /healthz and /readyz.")
    ] = 8080
    secure: Annotated[
        SecureMetrics, Meta(description="Metrics over HTTPS, for those who may read them.")
    ] = field(default_factory=SecureMetrics)
    service_monitor: Annotated[
        ServiceMonitor, Meta(description="Lets the Prometheus operator scrape the metrics.")
    ] = field(default_factory=ServiceMonitor)
    prometheus_rule: Annotated[
        PrometheusRule, Meta(description="Alerts about the operator (docs/guides/monitoring.md).")
    ] = field(default_factory=PrometheusRule)


def _prometheus() -> Documents:
    return [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]


class Progress(_Values, frozen=True):
    """The endpoint to which training programs report their progress."""

    enabled: Annotated[
        bool,
        Meta(
            description=(
                "Let training programs report percentage, time left and metrics. The operator may"
                " then review tokens, and make a CA, in a Secret of its namespace."
            )
        ),
    ] = False
    port: Annotated[int, Meta(ge=1, le=65535, description="Port of the reports.")] = 8443
    metrics: Annotated[
        str,
        Meta(
            pattern="^[^,\\s]*(,[^,\\s]+)*$",
            description="Reported metrics that Prometheus sees as well, such as loss,accuracy.",
        ),
    ] = ""


class NetworkPolicy(Switch, frozen=True):
    """Who may connect to the operator."""

    from_: Annotated[
        Documents,
        Meta(
            description=(
                "Peers of a NetworkPolicy that may scrape the metrics; [] for none. Probes of the"
                " kubelet are always allowed."
            )
        ),
    ] = field(default_factory=_prometheus, name="from")


class PriorityAndFairness(_Values, frozen=True):
    """API priority and fairness for the operator's requests."""

    enabled: Annotated[
        bool,
        Meta(
            description=(
                "A priority level and FlowSchemas of its own, which are in no namespace; the"
                " operator's Lease is among those of the control plane then."
            )
        ),
    ] = False
    nominal_concurrency_shares: Annotated[
        int,
        Meta(
            ge=0,
            le=1000,
            description=(
                "Its share of the requests that the API server handles at a time; service accounts"
                " have 100 together, and all priority levels of a new cluster 245."
            ),
        ),
    ] = 30
    lendable_percent: Annotated[
        int,
        Meta(ge=0, le=100, description="How much of it others may have while it is not used."),
    ] = 90


if TYPE_CHECKING:
    Kinds = Struct
else:
    Kinds = msgspec.defstruct(
        "Kinds",
        [
            (
                kind.definition.kind,
                Annotated[bool, Meta(description=f"Of {kind.definition.project.name}.")],
                False,
            )
            for kind in PROJECT_KINDS
        ],
        kw_only=True,
        frozen=True,
        forbid_unknown_fields=True,
    )
    """Which kinds of other projects are served: one field for each."""


class Logs(_Values, frozen=True):
    """The operator's log."""

    level: Annotated[
        Literal["debug", "info", "warning", "error", "critical"],
        Meta(description="Minimum level of log messages."),
    ] = "info"
    format: Annotated[Literal["text", "json"], Meta(description="Format of the log.")] = "text"


def _resources() -> dict[str, Any]:
    return {"requests": {"cpu": "100m", "memory": "160Mi"}, "limits": {"memory": "512Mi"}}


class Values(_Values, frozen=True):
    """An installation of the operator."""

    name: Annotated[
        str,
        Meta(
            pattern=_DNS_LABEL,
            max_length=40,
            description=(
                "Name of the Deployment, the roles and everything else. A second installation,"
                " for another namespace, needs another one."
            ),
        ),
    ] = NAME
    image: Annotated[Image, Meta(description="The operator's image.")] = field(
        default_factory=Image
    )
    helper_image: Annotated[
        HelperImage,
        Meta(
            description=(
                "Image of the init containers of distributed jobs; it is pulled in the jobs'"
                " namespaces, with the pull secrets of the jobs."
            )
        ),
    ] = field(default_factory=HelperImage)
    git_image: Annotated[
        GitImage,
        Meta(
            description=(
                "Image of the init containers that fetch spec.codeSync of MPIClusters; it is pulled"
                " as helperImage is."
            )
        ),
    ] = field(default_factory=GitImage)
    image_pull_secrets: Annotated[
        Documents, Meta(description="Secrets for pulling the operator's image: [{name: ...}].")
    ] = field(default_factory=list)
    replicas: Annotated[
        int,
        Meta(
            ge=0,
            le=10,
            description="One is the leader; the others are ready to take over within seconds.",
        ),
    ] = 2
    leader_election: Annotated[
        Election,
        Meta(description="Leader election of the replicas; without it there may be only one."),
    ] = field(default_factory=Election)
    watch_namespace: Annotated[
        str,
        Meta(
            pattern=f"^$|{_DNS_LABEL}",
            max_length=63,
            description=(
                "Serve the jobs of this namespace only, with permissions in this namespace only."
                " Empty: all namespaces, with permission to run pods and write Secrets in each, so"
                " that whoever takes the operator over has the cluster."
            ),
        ),
    ] = ""
    workers: Annotated[
        int, Meta(ge=1, le=64, description="Maximum number of jobs reconciled at the same time.")
    ] = OperatorOptions().workers
    gang_scheduling: Annotated[
        Mode,
        Meta(
            description=(
                "Scheduler that places the pods of a job together, for jobs that ask for it: auto"
                " takes one that the cluster has, none uses none of them."
            )
        ),
    ] = "auto"
    kinds: Annotated[
        Kinds,
        Meta(
            description=(
                "Kinds of other projects to serve as well, where their own operator does not run."
                " Their definitions have to be installed, and are not changed. The operator may"
                " then see the Deployments and the project's Leases of all namespaces."
            )
        ),
    ] = field(default_factory=Kinds)
    log: Annotated[Logs, Meta(description="The operator's log.")] = field(default_factory=Logs)
    metrics: Annotated[Metrics, Meta(description="Metrics and probes.")] = field(
        default_factory=Metrics
    )
    progress: Annotated[
        Progress, Meta(description="The endpoint to which training programs report their progress.")
    ] = field(default_factory=Progress)
    network_policy: Annotated[
        NetworkPolicy,
        Meta(
            description=(
                "A NetworkPolicy that lets only some peers connect to the operator, where the"
                " network of the cluster enforces such policies."
            )
        ),
    ] = field(default_factory=NetworkPolicy)
    priority_and_fairness: Annotated[
        PriorityAndFairness,
        Meta(description="The operator's share of the API server, for clusters with many jobs."),
    ] = field(default_factory=PriorityAndFairness)
    resources: Annotated[
        dict[str, Any], Meta(description="Requests and limits of the operator's container.")
    ] = field(default_factory=_resources)
    priority_class_name: Annotated[
        str, Meta(description="PriorityClass of the operator's pods.")
    ] = ""
    node_selector: Annotated[
        dict[str, str], Meta(description="Labels of the nodes the operator may run on.")
    ] = field(default_factory=dict)
    tolerations: Annotated[Documents, Meta(description="Taints the operator's pods tolerate.")] = (
        field(default_factory=list)
    )
    affinity: Annotated[
        dict[str, Any],
        Meta(
            description="Affinity of the operator's pods, which spread over nodes and zones anyway."
        ),
    ] = field(default_factory=dict)
    pod_labels: Annotated[
        dict[str, str], Meta(description="Additional labels of the operator's pods.")
    ] = field(default_factory=dict)
    pod_annotations: Annotated[
        dict[str, str], Meta(description="Annotations of the operator's pods.")
    ] = field(default_factory=dict)
    crds: Annotated[
        Switch,
        Meta(
            description=(
                "The CustomResourceDefinitions. They are upgraded with the release, and kept when"
                " it is uninstalled, because deleting them deletes all jobs."
            )
        ),
    ] = field(default_factory=Switch)
    user_roles: Annotated[
        Switch,
        Meta(
            description=(
                "ClusterRoles that give users who may edit or view a namespace the same access to"
                " its jobs."
            )
        ),
    ] = field(default_factory=Switch)


DEFAULTS = Values()


def plain(values: Values) -> dict[str, Any]:
    """Return values as a plain document, spelled as in YAML."""
    document: dict[str, Any] = msgspec.to_builtins(values)
    return document


def parse(document: Any) -> Values:
    """Parse a document that names only what differs from the defaults, as Helm does.

    Raises:
        ValueError: A value is unknown, of the wrong type or out of range.
    """
    if not isinstance(document, dict):
        raise ValueError(f"expected a mapping of values, got {type(document).__name__}")  # noqa: TRY004
    return msgspec.convert(_merged(plain(DEFAULTS), document), Values)


def _merged(before: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    merged = dict(before)
    for key, value in changes.items():
        inner = before.get(key)
        if isinstance(inner, dict) and isinstance(value, dict):
            merged[key] = _merged(inner, value)
        else:
            merged[key] = value
    return merged
