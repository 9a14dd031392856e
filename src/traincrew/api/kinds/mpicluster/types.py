"""MPICluster: the kind as users write it, and its defaults.

An MPICluster is a master and any number of identical workers, which mpiexec reaches by ssh or by
`kubectl exec`; it says in the style of Kubernetes what the values of the chart kube-openmpi say. It
is either interactive (the master waits for `kubectl exec`) or one-shot (the master runs a command,
and ends with it).

As for every kind, rules that a schema or CEL can express are enforced when the object is created
(`traincrew.api.kinds.mpicluster.definition`); what only code can check is found by
`traincrew.api.kinds.mpicluster.rules`.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct, field, structs

from traincrew.api.kind import Rule, rules
from traincrew.api.kinds.mpicluster.codesync import CODE_SYNC_RULES, CodeSync
from traincrew.api.kinds.mpicluster.ssh import SSH_RULES, Ssh
from traincrew.api.kinds.mpicluster.transport import SSH, Transport
from traincrew.api.podtemplate import completed, has_container
from traincrew.api.runpolicy import RunPolicy

GROUP = "traincrew.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "MPICluster"
PLURAL = "mpiclusters"

MASTER: Final = "master"
WORKER: Final = "worker"
"""The roles: values of the label ``role``, and the keys of ``status.replicaStatuses``."""
MASTER_CONTAINER = "mpi-master"
WORKER_CONTAINER = "mpi-worker"
"""The containers that MPI processes run in."""
INTERACTIVE: Final = "Interactive"
ONE_SHOT: Final = "OneShot"
"""The modes: values of ``status.mode``."""

DEFAULT_APP_NAME = "kube-openmpi"
DEFAULT_REPLICAS = 4
DEFAULT_UPDATE_SECONDS = 15
DEFAULT_BACKOFF_LIMIT = 6
"""Retries of a one-shot command, as for a Job."""

MAX_NAME = 45
"""``<name>-worker`` plus an 11 character revision is a label value of worker pods."""
MAX_REPLICAS = 1000
MAX_SLOTS = 1024
MAX_CODE_SYNC = 32
MAX_COMMAND = 100_000
"""Linux passes at most 128 KiB in one argument of a program."""
OWN_PREFIX = "kube-openmpi-"
"""Prefix of the names of volumes that the operator adds to pods."""
CLUSTER_NAME = "^[a-z]([-a-z0-9]*[a-z0-9])?$"
LABEL_VALUE = "^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"

PodManagementPolicy = Literal["Parallel", "OrderedReady"]


class Hostfile(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """How the hostfile is kept."""

    auto_update: Annotated[
        bool,
        Meta(
            description=(
                "Whether the hostfile follows the workers while the master runs. If false, it"
                " lists the workers that were ready when the master was started."
            )
        ),
    ] = True
    update_seconds: Annotated[
        int,
        Meta(
            ge=1,
            le=3600,
            description=(
                "Number of seconds within which a change of the workers is in the hostfile of a"
                " running master."
            ),
        ),
    ] = DEFAULT_UPDATE_SECONDS


class NetworkPolicy(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """Which connections are allowed."""

    enabled: Annotated[
        bool,
        Meta(
            description=(
                "Whether the pods accept connections of each other only; the master also those"
                " from elsewhere."
            )
        ),
    ] = False


class OneShot(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """A command with which the cluster ends."""

    command: Annotated[
        str,
        Meta(
            max_length=MAX_COMMAND,
            description=(
                "Command that the master runs with a shell, usually mpiexec. If it fails, it is"
                " run again, at most runPolicy.backoffLimit times."
            ),
        ),
    ]
    scale_down_workers: Annotated[
        bool,
        Meta(description="Whether the workers are scaled down to 0 when the command succeeded."),
    ] = True


class Master(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """The pod that mpiexec is run on."""

    template: Annotated[
        dict[str, Any],
        Meta(
            description=(
                "Template of the master pod, <name>-master. It must have a container named"
                " mpi-master; a single container without a name gets this name. With transport:"
                " ssh, its image starts sshd (/init.sh), and the pod has no token of the Kubernetes"
                " API, unless it names a serviceAccountName or sets automountServiceAccountToken. A"
                " change takes effect when the master is created again."
            ),
            extra_json_schema={"x-pod-template": {"restart_policy": "OnFailure"}},
        ),
    ]
    one_shot: Annotated[
        OneShot | None,
        Meta(
            description=(
                "The command that the master runs, and with which the cluster succeeds or fails."
                " If it is not set, the cluster is interactive: the master waits for `kubectl"
                " exec`."
            ),
            extra_json_schema=rules(
                Rule(
                    rule=r"self.command.matches('\\S')",
                    message="command is empty: write what the master is to run",
                ),
            ),
        ),
    ] = None


class DisruptionBudget(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """Protection of the workers from voluntary disruptions."""

    enabled: Annotated[
        bool,
        Meta(
            description=(
                "Whether there is a PodDisruptionBudget <name>-worker-pdb that lets no worker be"
                " evicted."
            )
        ),
    ] = False


class Workers(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """Identical pods that MPI processes are started on, managed by a StatefulSet."""

    template: Annotated[
        dict[str, Any],
        Meta(
            description=(
                "Template of the worker pods, <name>-worker-<index>. It must have a container"
                " named mpi-worker; a single container without a name gets this name. With"
                " transport: ssh, its image starts sshd (/init.sh). The pods have no token of the"
                " Kubernetes API, unless the template names a serviceAccountName or sets"
                " automountServiceAccountToken."
            ),
            extra_json_schema={"x-pod-template": {"restart_policy": "Always"}},
        ),
    ]
    replicas: Annotated[
        int,
        Meta(
            ge=0,
            le=MAX_REPLICAS,
            description=(
                "Number of workers. It can be changed at any time, and so can that of the"
                " StatefulSet <name>-worker; the later change counts."
            ),
        ),
    ] = DEFAULT_REPLICAS
    pod_management_policy: Annotated[
        PodManagementPolicy,
        Meta(
            description=(
                "How workers are started and stopped: all at once (Parallel), or one after another"
                " (OrderedReady)."
            )
        ),
    ] = "Parallel"
    pod_disruption_budget: Annotated[
        DisruptionBudget,
        Meta(description="Protection of the workers from voluntary disruptions."),
    ] = DisruptionBudget()


def _template_rules(container: str, policy: str, why: str) -> dict[str, Any]:
    return rules(
        Rule(
            rule=has_container("self.template", container),
            message=f"template.spec.containers must have a container named '{container}'",
        ),
        Rule(
            rule=f"self.template.spec.restartPolicy == '{policy}'",
            message=f"template.spec.restartPolicy must be {policy}, {why}",
        ),
    )


MASTER_POLICY_WHY = (
    "because the command is retried in its pod: write runPolicy.backoffLimit: 0 for no retry"
)
WORKER_POLICY_WHY = "because the workers are a StatefulSet"
_MASTER_RULES = _template_rules(MASTER_CONTAINER, "OnFailure", MASTER_POLICY_WHY)
_WORKERS_RULES = _template_rules(WORKER_CONTAINER, "Always", WORKER_POLICY_WHY)
CONVERT = "or convert the values file: traincrew mpi -f values.yaml"


def _not_a_field(use: str) -> Any:
    return Meta(
        description=f"Not a field, but a key of kube-openmpi's values: write {use}.",
        extra_json_schema={"x-kubernetes-preserve-unknown-fields": True},
    )


INSTEAD = {
    "mpiMaster": "master",
    "mpiWorkers": "workers (num is workers.replicas)",
    "image": (
        "the image of the containers in master.template and workers.template, and"
        " imagePullSecrets beside them"
    ),
    "sshKey": "ssh.keySecretName with the name of a Secret",
    "sshGateway": "ssh.gateway",
    "appCodesToSync": "codeSync",
    "nameOverride": "appName",
}
"""What to write instead of the keys of kube-openmpi's values."""


class MPIClusterSpec(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """``spec`` of an MPICluster."""

    master: Annotated[
        Master,
        Meta(
            description="Required. The pod that mpiexec is run on.",
            extra_json_schema=_MASTER_RULES,
        ),
    ] = field(default_factory=lambda: Master(template={}))
    workers: Annotated[
        Workers,
        Meta(
            description="Required. The pods that MPI processes are started on.",
            extra_json_schema=_WORKERS_RULES,
        ),
    ] = field(default_factory=lambda: Workers(template={}))
    app_name: Annotated[
        str,
        Meta(
            pattern=LABEL_VALUE,
            max_length=63,
            description="Value of the label app of everything that the cluster owns.",
        ),
    ] = DEFAULT_APP_NAME
    slots: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_SLOTS)] | None,
        Meta(
            description=(
                "Number of MPI slots of each pod in the hostfile (slots=). Defaults to the number"
                " of GPUs of a worker; if it has none, the hostfile has no slots, and Open MPI"
                " counts the cores of each pod."
            ),
        ),
    ] = None
    hostfile: Annotated[
        Hostfile,
        Meta(
            description=(
                "How the hostfile is kept. It is /kube-openmpi/generated/hostfile in the master"
                " pod, and lists the master and every ready worker."
            )
        ),
    ] = Hostfile()
    transport: Transport = SSH
    ssh: Annotated[
        Ssh, Meta(description="Keys and gateway of ssh.", extra_json_schema=SSH_RULES)
    ] = Ssh()
    network_policy: Annotated[
        NetworkPolicy, Meta(description="Which connections to the pods are allowed.")
    ] = NetworkPolicy()
    code_sync: Annotated[
        list[Annotated[CodeSync, Meta(extra_json_schema=CODE_SYNC_RULES)]],
        Meta(
            max_length=MAX_CODE_SYNC,
            description=(
                "Git repositories that are fetched into every pod before it starts, and mounted."
            ),
            extra_json_schema={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        ),
    ] = field(default_factory=list)
    run_policy: Annotated[
        RunPolicy,
        Meta(
            description="Policies for suspending, retrying, timing out and cleaning up the cluster."
        ),
    ] = RunPolicy()
    mpi_master: Annotated[dict[str, Any] | None, _not_a_field(INSTEAD["mpiMaster"])] = None
    mpi_workers: Annotated[dict[str, Any] | None, _not_a_field(INSTEAD["mpiWorkers"])] = None
    image: Annotated[dict[str, Any] | None, _not_a_field(INSTEAD["image"])] = None
    ssh_key: Annotated[dict[str, Any] | None, _not_a_field(INSTEAD["sshKey"])] = None
    ssh_gateway: Annotated[dict[str, Any] | None, _not_a_field(INSTEAD["sshGateway"])] = None
    app_codes_to_sync: Annotated[
        list[
            Annotated[
                dict[str, Any],
                Meta(
                    description="Anything.",
                    extra_json_schema={"x-kubernetes-preserve-unknown-fields": True},
                ),
            ]
        ]
        | None,
        Meta(
            description=(
                "Not a field, but a key of kube-openmpi's values: write"
                f" {INSTEAD['appCodesToSync']}."
            )
        ),
    ] = None
    name_override: Annotated[
        str | None,
        Meta(
            description=(
                f"Not a field, but a key of kube-openmpi's values: write {INSTEAD['nameOverride']}."
            )
        ),
    ] = None

    @property
    def one_shot(self) -> OneShot | None:
        """The command with which the cluster ends; None if it is interactive."""
        return self.master.one_shot

    @property
    def mode(self) -> str:
        """The mode as in ``status.mode``."""
        return INTERACTIVE if self.one_shot is None else ONE_SHOT

    @property
    def backoff_limit(self) -> int:
        """Number of retries of the command, with its default."""
        limit = self.run_policy.backoff_limit
        return DEFAULT_BACKOFF_LIMIT if limit is None else limit


def decode(spec: dict[str, Any]) -> MPIClusterSpec:
    """Decode a stored ``spec``; templates are completed.

    Raises:
        msgspec.ValidationError: A field is missing or has the wrong type; the message has its path.
    """
    decoded = msgspec.convert(spec, MPIClusterSpec)
    master, workers = decoded.master, decoded.workers
    return structs.replace(
        decoded,
        master=structs.replace(master, template=completed(master.template, MASTER_CONTAINER)),
        workers=structs.replace(workers, template=completed(workers.template, WORKER_CONTAINER)),
    )
