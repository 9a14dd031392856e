"""MPICluster: its definition; rules over several fields, printer columns, scale, status."""

from __future__ import annotations

from msgspec import structs

from traincrew.api.kind import (
    AGE,
    COUNT,
    MESSAGE,
    PHASE,
    PROGRESS,
    REASON,
    RESTARTS,
    Column,
    Kind,
    Rule,
    Scale,
    StatusWords,
    rules,
)
from traincrew.api.kinds.mpicluster.clusterchecks import WRONG_NAME
from traincrew.api.kinds.mpicluster.transport import RULES as TRANSPORT_RULES
from traincrew.api.kinds.mpicluster.types import (
    CLUSTER_NAME,
    CONVERT,
    GROUP,
    INSTEAD,
    KIND,
    MASTER_CONTAINER,
    MAX_NAME,
    PLURAL,
    VERSION,
    WORKER,
    WORKER_CONTAINER,
    MPIClusterSpec,
)

# Missing fields are found by rules, too: the API server would check no rule beside a field that the
# schema requires, and so would not say of which fields the keys of kube-openmpi are spellings.
_VALUES_KEYS = [
    Rule(
        rule=f"!has(self.{key})",
        message=f"{key} is a key of kube-openmpi's values: write {use}, {CONVERT}",
    )
    for key, use in INSTEAD.items()
]
_REQUIRED = [
    Rule(
        rule=f"has(self.{name}) || has(self.{key})",
        message=f"{name} is required: write {name}.template, the template of its pods",
    )
    for name, key in (("master", "mpiMaster"), ("workers", "mpiWorkers"))
]
_DELETE = "delete the cluster and create it again"
SPEC_RULES = rules(
    *_VALUES_KEYS,
    *_REQUIRED,
    Rule(
        rule="self.appName == oldSelf.appName",
        message=f"appName cannot be changed, because Services select pods by it: {_DELETE}",
    ),
    Rule(
        rule=(
            "!has(self.master) || !has(oldSelf.master) ||"
            " has(self.master.oneShot) == has(oldSelf.master.oneShot)"
        ),
        message=(
            "master.oneShot: an interactive cluster cannot become a one-shot cluster, nor the"
            f" reverse: {_DELETE}"
        ),
    ),
    Rule(
        rule=(
            "!has(self.workers) || !has(oldSelf.workers) ||"
            " self.workers.podManagementPolicy == oldSelf.workers.podManagementPolicy"
        ),
        message=(
            "workers.podManagementPolicy cannot be changed, because a StatefulSet's cannot:"
            f" {_DELETE}"
        ),
    ),
    *TRANSPORT_RULES,
)
"""Rules over ``spec``."""
JOB_RULES = rules(
    Rule(
        rule=f"self.metadata.name.matches('{CLUSTER_NAME}')",
        message=f"metadata.name: {WRONG_NAME}",
    ),
    Rule(
        rule=f"size(self.metadata.name) <= {MAX_NAME}",
        message=(
            f"metadata.name must have at most {MAX_NAME} characters, because the StatefulSet is"
            " named <name>-worker"
        ),
    ),
)
"""Rules over the whole object."""

_TEXT = {"type": "string"}
STATUS = StatusWords(
    start_time=(
        "Time at which the master was created, or created again after the cluster was resumed."
    ),
    replicas="Numbers of pods, for master and worker.",
    numbers={
        "active": "Number of pods that hold resources, terminating ones included.",
        "ready": "Number of pods that are ready.",
        "succeeded": "1 if the command of the master succeeded.",
        "failed": "Number of failed pods that still exist.",
        "restarts": "Number of restarts of pods and containers.",
        "selector": "Label selector of these pods, for autoscalers.",
    },
    fields={
        "mode": {
            **_TEXT,
            "description": "Interactive, or OneShot if spec.master.oneShot is set.",
        },
        "sshKeySecretName": {
            **_TEXT,
            "description": "Name of the Secret with the key pair that the pods use.",
        },
        "sshKeyGeneration": {
            **COUNT,
            "description": (
                "Number of the key pair that the pods use, if the operator made it: see"
                " spec.ssh.keyGeneration."
            ),
        },
        "sshKeyRotationTime": {
            **_TEXT,
            "format": "date-time",
            "description": (
                "Time at which the key pair was replaced by that of sshKeyGeneration. It is removed"
                " when the pods accept the new pair only."
            ),
        },
        "failures": {
            **COUNT,
            "description": (
                "Number of times that the command of a one-shot cluster failed. It never decreases."
            ),
        },
        "exitCode": {
            **COUNT,
            "description": "Exit code of the command of a one-shot cluster, when it has ended.",
        },
    },
    words="`status` describes the state of the cluster:",
)

DEFINITION = Kind(
    group=GROUP,
    version=VERSION,
    kind=KIND,
    plural=PLURAL,
    short_names=("mpic",),
    description=(
        "An MPI cluster: a master and workers, connected by ssh or kubectl exec, for mpiexec by"
        " hand or for one command."
    ),
    spec=MPIClusterSpec,
    containers=(MASTER_CONTAINER, WORKER_CONTAINER),
    spec_rules=SPEC_RULES,
    rules=JOB_RULES,
    columns=(
        PHASE,
        Column(
            name="Mode",
            type="string",
            json_path=".status.mode",
            description="Interactive or OneShot.",
        ),
        Column(
            name="Workers",
            type="string",
            json_path=".status.workersReady",
            description="Number of ready worker pods, of the number desired, for example 3/4.",
        ),
        PROGRESS,
        AGE,
        structs.replace(RESTARTS, priority=1),
        REASON,
        MESSAGE,
    ),
    status=STATUS,
    scale=Scale(
        spec_replicas_path=".spec.workers.replicas",
        status_replicas_path=f".status.replicaStatuses.{WORKER}.active",
        label_selector_path=f".status.replicaStatuses.{WORKER}.selector",
    ),
)
"""The definition that is installed on a cluster."""
