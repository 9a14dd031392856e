"""What can be chosen when the operator is installed.

One type says it for everything: its defaults are `deploy/` and `config/`, its fields become the
chart's ``values.yaml`` and ``values.schema.json``, and `traincrew manifests --values` reads it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from traincrew.operator.options import HELPER_IMAGE, OperatorOptions

NAME = "chainer-operator"
"""Of kubeflow/chainer-operator, so that an installation is replaced rather than doubled."""

_DNS_LABEL = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_REPOSITORY = r"^[a-zA-Z0-9][-a-zA-Z0-9._/:]*$"
_TAG = r"^([a-zA-Z0-9_][-a-zA-Z0-9._]*)?$"
_DIGEST = "^(sha256:[0-9a-f]{64})?$"

Documents = list[dict[str, Any]]


class _Values(Struct, rename="camel", kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Spelled as in YAML; what is not known is refused."""


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
        Literal["Always", "IfNotPresent", "Never"], Meta(description="When it is pulled.")
    ] = "IfNotPresent"


class HelperImage(_Values, frozen=True):
    """Image of the init steps."""

    repository: Repository = HELPER_IMAGE.rpartition(":")[0]
    tag: Tag = ""
    digest: Digest = ""


class Switch(_Values, frozen=True):
    """Something that can be left out."""

    enabled: Annotated[bool, Meta(description="Whether to have it.")] = True


class ServiceMonitor(_Values, frozen=True):
    """A ServiceMonitor for the Prometheus operator."""

    enabled: Annotated[
        bool, Meta(description="Needs the definitions of the Prometheus operator.")
    ] = False
    interval: Annotated[
        str, Meta(pattern="^([0-9]+(ms|s|m|h))+$", description="Time between two scrapes.")
    ] = "30s"
    labels: Annotated[
        dict[str, str], Meta(description="Labels by which your Prometheus selects it.")
    ] = field(default_factory=dict)


class Metrics(_Values, frozen=True):
    """Metrics and probes."""

    port: Annotated[
        int, Meta(ge=1, le=65535, description="Port of /metrics, /healthz and /readyz.")
    ] = 8080
    service_monitor: Annotated[
        ServiceMonitor, Meta(description="Have the Prometheus operator scrape the metrics.")
    ] = field(default_factory=ServiceMonitor)


class Logs(_Values, frozen=True):
    """The operator's log."""

    level: Annotated[
        Literal["debug", "info", "warning", "error", "critical"],
        Meta(description="What is logged."),
    ] = "info"
    format: Annotated[Literal["text", "json"], Meta(description="How it is written.")] = "text"


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
                "Image of the init steps of distributed jobs; it is pulled in the jobs' namespaces,"
                " with the pull secrets of the jobs."
            )
        ),
    ] = field(default_factory=HelperImage)
    image_pull_secrets: Annotated[
        Documents, Meta(description="Secrets for pulling the operator's image: [{name: ...}].")
    ] = field(default_factory=list)
    replicas: Annotated[
        int,
        Meta(
            ge=0,
            le=10,
            description="One leads; the others wait with warm caches, and take over in seconds.",
        ),
    ] = 2
    leader_election: Annotated[
        Switch,
        Meta(description="The election between the replicas; without it there may be only one."),
    ] = field(default_factory=Switch)
    watch_namespace: Annotated[
        str,
        Meta(
            pattern=f"^$|{_DNS_LABEL}",
            max_length=63,
            description=(
                "Serve the jobs of this namespace only, with permissions in this namespace only."
                " Empty: all namespaces."
            ),
        ),
    ] = ""
    workers: Annotated[
        int, Meta(ge=1, le=64, description="How many jobs are looked at at the same time.")
    ] = OperatorOptions().workers
    log: Annotated[Logs, Meta(description="The operator's log.")] = field(default_factory=Logs)
    metrics: Annotated[Metrics, Meta(description="Metrics and probes.")] = field(
        default_factory=Metrics
    )
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
            description="Affinity of the operator's pods; they spread over nodes and zones anyway."
        ),
    ] = field(default_factory=dict)
    pod_labels: Annotated[
        dict[str, str], Meta(description="More labels for the operator's pods.")
    ] = field(default_factory=dict)
    pod_annotations: Annotated[
        dict[str, str], Meta(description="Annotations for the operator's pods.")
    ] = field(default_factory=dict)
    crds: Annotated[
        Switch,
        Meta(
            description=(
                "The CustomResourceDefinitions. They are upgraded with the release, and kept when"
                " it is uninstalled, because with them all jobs would go."
            )
        ),
    ] = field(default_factory=Switch)
    user_roles: Annotated[
        Switch,
        Meta(
            description=(
                "ClusterRoles that let whoever may edit or view a namespace do so with its jobs."
            )
        ),
    ] = field(default_factory=Switch)


DEFAULTS = Values()


def plain(values: Values) -> dict[str, Any]:
    """Values as a plain document, spelled as in YAML."""
    document: dict[str, Any] = msgspec.to_builtins(values)
    return document


def parse(document: Any) -> Values:
    """Values from a document that names only what differs from the defaults, as Helm reads it.

    Raises:
        ValueError: Something in it is unknown, of the wrong type or out of range.
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
