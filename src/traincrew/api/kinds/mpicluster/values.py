"""The values of the chart kube-openmpi: their keys and defaults.

The keys and defaults are those of the chart 0.7.0 of everpeace/kube-openmpi. The types are used for
the chart's schema and its ``values.yaml``, for the reference page, and to check values files.
`traincrew.api.kinds.mpicluster.convert` has the field that each key becomes.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from traincrew.api.kinds.mpicluster.ssh import DEFAULT_NODE_PORT
from traincrew.api.kinds.mpicluster.transport import SSH
from traincrew.api.kinds.mpicluster.types import (
    DEFAULT_APP_NAME,
    DEFAULT_REPLICAS,
    DEFAULT_UPDATE_SECONDS,
    PodManagementPolicy,
)

NO_EFFECT = "No effect: the operator's own image does this."

PullPolicy = Literal["Always", "IfNotPresent", "Never"]
Whole = int | Annotated[str, Meta(pattern="^[0-9]+$")]
"""A whole number; kube-openmpi also takes it in quotes."""
Mapping = dict[str, Any]
Mappings = list[dict[str, Any]]


def _about(description: str) -> Meta:
    return Meta(extra_json_schema={"description": description}, extra={"description": description})


class _Values(Struct, rename="camel", kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Base of the types."""


class PullSecret(_Values, frozen=True):
    """A Secret to pull the image with."""

    name: Annotated[str, _about("Name of the Secret.")]


class Image(_Values, frozen=True):
    """The image of all pods."""

    repository: Annotated[str, _about("Repository of the image of master and workers.")] = (
        "everpeace/kube-openmpi"
    )
    tag: Annotated[str, _about("Tag of the image, in quotes if it is a number.")] = "0.7.0"
    pull_policy: Annotated[PullPolicy, _about("When the image is pulled.")] = "IfNotPresent"
    pull_secrets: Annotated[list[PullSecret], _about("Secrets to pull the image with.")] = field(
        default_factory=list
    )


class HelperImage(_Values, frozen=True):
    """An image that kube-openmpi needed."""

    repository: Annotated[str, _about(NO_EFFECT)]
    tag: Annotated[str, _about(NO_EFFECT)]
    pull_policy: Annotated[PullPolicy, _about(NO_EFFECT)] = "IfNotPresent"


class NetworkPolicyValues(_Values, frozen=True):
    """Network policies."""

    enabled: Annotated[
        bool,
        _about("Whether the pods accept connections of each other only; the master also others."),
    ] = False


class GatewayValues(_Values, frozen=True):
    """The Service for ssh from outside."""

    enabled: Annotated[bool, _about("Whether the master is reached by ssh from outside.")] = False
    node_port: Annotated[Whole, _about("Port of the nodes for it.")] = DEFAULT_NODE_PORT


class SshKey(_Values, frozen=True):
    """The key pair, from ssh-key.yaml."""

    id_rsa: Annotated[
        str, _about("Private key that all pods share. Without keys, the operator makes some.")
    ] = field(default="", name="id_rsa")
    id_rsa_pub: Annotated[str, _about("Public key of it, in one line.")] = field(
        default="", name="id_rsa_pub"
    )


class AutoUpdate(_Values, frozen=True):
    """How the hostfile is kept."""

    enabled: Annotated[bool, _about("Whether the hostfile follows the workers.")] = True
    update_every: Annotated[Whole, _about("Within how many seconds it does.")] = (
        DEFAULT_UPDATE_SECONDS
    )


class OneShotValues(_Values, frozen=True):
    """The command of a one-shot cluster."""

    enabled: Annotated[bool, _about("Whether the master runs the command, and ends with it.")] = (
        False
    )
    auto_scale_down_workers: Annotated[
        bool, _about("Whether the workers are scaled down to 0 when it succeeded.")
    ] = True
    command: Annotated[str, _about("The command, for a shell.")] = """\
mpiexec --allow-run-as-root \\
  --hostfile /kube-openmpi/generated/hostfile \\
  --display-map -n 4 -npernode 1 \\
  sh -c 'echo $(hostname):hello'
"""


class MasterScheduling(_Values, frozen=True):
    """Another scheduler for the master."""

    enabled: Annotated[bool, _about("Whether schedulerName is used.")] = False
    scheduler_name: Annotated[str, _about("Scheduler of the master.")] = ""


class DisruptionBudgetValues(_Values, frozen=True):
    """Protection of the workers."""

    enabled: Annotated[
        bool, _about("Whether no worker may be evicted; used with customScheduling.enabled only.")
    ] = False


class WorkerScheduling(_Values, frozen=True):
    """Another scheduler for the workers."""

    enabled: Annotated[bool, _about("Whether schedulerName and podDisruptionBudget are used.")] = (
        False
    )
    scheduler_name: Annotated[str, _about("Scheduler of the workers.")] = ""
    pod_disruption_budget: Annotated[
        DisruptionBudgetValues, _about("Protection of the workers from evictions.")
    ] = DisruptionBudgetValues()


class MasterValues(_Values, frozen=True):
    """The master."""

    auto_update_hostfile: Annotated[
        AutoUpdate, _about("How /kube-openmpi/generated/hostfile is kept.")
    ] = AutoUpdate()
    security_context: Annotated[Mapping, _about("securityContext of the pod.")] = field(
        default_factory=dict
    )
    one_shot: Annotated[
        OneShotValues, _about("A command that the master runs; else it waits for kubectl exec.")
    ] = OneShotValues()
    custom_scheduling: Annotated[MasterScheduling, _about("Another scheduler for the master.")] = (
        MasterScheduling()
    )
    resources: Annotated[Mapping, _about("Resources of the container.")] = field(
        default_factory=dict
    )
    node_selector: Annotated[Mapping, _about("Labels of the nodes for it.")] = field(
        default_factory=dict
    )
    tolerations: Annotated[Mappings, _about("Tolerations of the pod.")] = field(
        default_factory=list
    )
    affinity: Annotated[Mapping, _about("Affinity of the pod.")] = field(default_factory=dict)
    volumes: Annotated[Mappings, _about("Volumes of the pod.")] = field(default_factory=list)
    volume_mounts: Annotated[Mappings, _about("Where the container has them.")] = field(
        default_factory=list
    )


class WorkerValues(_Values, frozen=True):
    """The workers."""

    num: Annotated[Whole, _about("Number of workers.")] = DEFAULT_REPLICAS
    security_context: Annotated[Mapping, _about("securityContext of the pods.")] = field(
        default_factory=dict
    )
    custom_scheduling: Annotated[
        WorkerScheduling, _about("Another scheduler for the workers, such as one for gangs.")
    ] = WorkerScheduling()
    resources: Annotated[Mapping, _about("Resources of the container.")] = field(
        default_factory=dict
    )
    pod_management_policy: Annotated[
        PodManagementPolicy, _about("Whether workers start all at once.")
    ] = "Parallel"
    node_selector: Annotated[Mapping, _about("Labels of the nodes for them.")] = field(
        default_factory=dict
    )
    tolerations: Annotated[Mappings, _about("Tolerations of the pods.")] = field(
        default_factory=list
    )
    affinity: Annotated[Mapping, _about("Affinity of the pods.")] = field(default_factory=dict)
    volumes: Annotated[Mappings, _about("Volumes of the pods.")] = field(default_factory=list)
    volume_mounts: Annotated[Mappings, _about("Where the container has them.")] = field(
        default_factory=list
    )


class AppCode(_Values, frozen=True):
    """A git repository to fetch."""

    name: Annotated[str, _about("Name of the entry.")]
    git_repo: Annotated[str, _about("URL of the repository.")]
    mount_path: Annotated[str, _about("Where the containers have it.")]
    git_branch: Annotated[str | None, _about("Branch to fetch.")] = None
    fetch_wait_second: Annotated[
        Whole | None, _about("Seconds after which fetching is tried again.")
    ] = None
    update_every: Annotated[
        Whole | None,
        _about("Seconds after which running pods look for new commits. Not in kube-openmpi."),
    ] = None
    sub_path: Annotated[str | None, _about("Directory to mount, beginning with the name.")] = None
    git_secret_name: Annotated[
        str | None, _about("Secret with the key (ssh) of a private repository.")
    ] = None


class ChartValues(_Values, frozen=True):
    """Values of the chart, spelled as kube-openmpi does."""

    name_override: Annotated[
        str, _about(f"Label app of everything, if it is not {DEFAULT_APP_NAME}.")
    ] = ""
    fullname_override: Annotated[str, _about("No effect, as in kube-openmpi.")] = ""
    image: Annotated[Image, _about("Image of master and workers.")] = Image()
    kubectl_image: Annotated[HelperImage, _about(NO_EFFECT)] = HelperImage(
        repository="everpeace/kubectl", tag="1.9.2"
    )
    git_sync_image: Annotated[HelperImage, _about(NO_EFFECT)] = HelperImage(
        repository="gcr.io/google_containers/git-sync", tag="v2.0.6"
    )
    transport: Annotated[
        Literal["ssh", "exec"],
        _about(
            "How mpiexec starts processes in other pods: by ssh, or by kubectl exec, which needs no"
            " ssh in the image. kube-openmpi has no such key."
        ),
    ] = SSH
    network_policy: Annotated[NetworkPolicyValues, _about("Which connections are allowed.")] = (
        NetworkPolicyValues()
    )
    ssh_gateway: Annotated[GatewayValues, _about("A Service for ssh from outside.")] = (
        GatewayValues()
    )
    ssh_key: Annotated[
        SshKey, _about("The key pair of ssh; usually in a file of its own, ssh-key.yaml.")
    ] = SshKey()
    mpi_master: Annotated[MasterValues, _about("The master, where mpiexec runs.")] = MasterValues()
    mpi_workers: Annotated[WorkerValues, _about("The workers.")] = WorkerValues()
    app_codes_to_sync: Annotated[
        list[AppCode], _about("Git repositories that are fetched into every pod.")
    ] = field(default_factory=list)


def defaults() -> dict[str, Any]:
    """Return the chart's default values as a plain document."""
    document: dict[str, Any] = msgspec.to_builtins(ChartValues())
    return document


def merged(*documents: dict[str, Any]) -> dict[str, Any]:
    """Return the defaults with values on top of them, as Helm does.

    Mappings are merged, later values win, and null removes a key of the defaults.
    """
    given: dict[str, Any] = {}
    for document in documents:
        given = _merge(given, document)
    return _on_top(defaults(), given)


def _merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Return one file with a later one on top; null stays."""
    found = dict(below)
    for key, value in above.items():
        before = below.get(key)
        both = isinstance(before, dict) and isinstance(value, dict)
        found[key] = _merge(before or {}, value) if both else value
    return found


def _on_top(usual: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return the defaults with given values on top; null removes only what the defaults have."""
    found = _merge(usual, given)
    for key, before in usual.items():
        if found[key] is None:
            del found[key]
        elif isinstance(before, dict) and isinstance(given.get(key), dict):
            found[key] = _on_top(before, given[key])
    return found
