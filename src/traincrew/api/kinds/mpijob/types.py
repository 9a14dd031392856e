"""MPIJob: the kind of mpi-operator, and its defaults.

An MPIJob is a launcher, the pod of a Job, that runs `mpirun`, and workers that run sshd. `mpirun`
finds the workers in a hostfile, and starts the ranks there by ssh.

Fields, defaults and checks are those of mpi-operator 0.8.0: docs/design/mpijob.md has its sources.
As for every kind, rules that a schema or CEL can express are enforced when the object is created
(`traincrew.api.kinds.mpijob.definition`); what only code can check is found by
`traincrew.api.kinds.mpijob.rules`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field, structs

from traincrew.api.kind import MULTI_KUEUE, Rule, rules
from traincrew.api.podtemplate import completed
from traincrew.api.reasons import Cause, Reasons
from traincrew.api.runpolicy import (
    CleanPodPolicy,
    CommonPolicy,
    NonNegative,
    SchedulingPolicy,
    Seconds,
)

GROUP = "kubeflow.org"
VERSION = "v2beta1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "MPIJob"
PLURAL = "mpijobs"

LAUNCHER = "Launcher"
WORKER = "Worker"
TYPES = (LAUNCHER, WORKER)
CONTAINER = "mpi"
"""The name of a single unnamed container."""
MANAGER = "kubeflow.org/mpi-operator"
"""Value of ``spec.runPolicy.managedBy`` of jobs that are not managed elsewhere."""
CONFIG_MOUNT = "/etc/mpi"
"""Where the launcher has the hostfile and ``discover_hosts.sh``."""
DEFAULT_SSH_MOUNT = "/root/.ssh"

MAX_REPLICAS = 5000
"""Maximum number of workers: the size of the status still works with this many."""
MAX_TYPES = 8
MAX_HOST_NAME = 63
"""``<name>-worker-<index>`` is a host name, and ``<name>`` is the name of a Service."""

REASONS = Reasons({Cause.PROGRAM: f"{KIND}Failed"})
"""The reasons of mpi-operator: those of the launcher's Job, and one of its own."""

Implementation = Literal["OpenMPI", "Intel", "MPICH"]
CreationPolicy = Literal["AtStartup", "WaitForWorkersReady"]
RestartPolicy = Literal["Never", "OnFailure"]


class MPIRunPolicy(CommonPolicy, kw_only=True, frozen=True):
    """The run policy of an MPIJob."""

    ttl_seconds_after_finished: Annotated[
        NonNegative | None,
        Meta(
            description=(
                "Number of seconds after which the Job of the launcher of a finished job is"
                " deleted, with its pods. The MPIJob itself stays. If it is not set, nothing is"
                " deleted."
            ),
        ),
    ] = None
    active_deadline_seconds: Annotated[
        Seconds | None,
        Meta(
            description=(
                "Number of seconds that the Job of the launcher may be active before the job fails"
                f" with reason {Cause.DEADLINE.value}. The time while the job is suspended does not"
                " count."
            ),
        ),
    ] = None
    backoff_limit: Annotated[
        NonNegative | None,
        Meta(
            description=(
                "Number of retries of the launcher before the job fails with reason"
                f" {Cause.BACKOFF_LIMIT.value}. Defaults to 6, as for a Job."
            ),
        ),
    ] = None
    clean_pod_policy: Annotated[
        CleanPodPolicy,
        Meta(
            description=(
                "Which pods of the workers are deleted when the job finishes. None (default): no"
                " pods, those that still run included. Running: the pods that still run. All: all"
                " pods of the workers. The launcher's pod stays, with its log."
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
                f"Who manages the job. {MANAGER} (default): the operator of this cluster."
                f" {MULTI_KUEUE}: MultiKueue, which runs it on another cluster; it is left alone"
                " here. It cannot be changed."
            ),
        ),
    ] = None


class ReplicaSpec(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """The launcher, or identical workers."""

    template: Annotated[
        dict[str, Any],
        Meta(
            description=(
                "Template of the pods. The first container has the program: mpirun in the launcher,"
                " sshd in a worker, which is /usr/sbin/sshd -De if it has neither command nor args."
            ),
            extra_json_schema={"x-pod-template": {}},
        ),
    ]
    replicas: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_REPLICAS)] | None,
        Meta(
            description=(
                f"Number of pods. That of the {LAUNCHER} is 1; that of the {WORKER} is required,"
                " and can be changed while the job runs, also by kubectl scale."
            ),
        ),
    ] = None
    restart_policy: Annotated[
        RestartPolicy | None,
        Meta(
            description=(
                "Restart policy of the pods; it overrides that of the template. Defaults to"
                f" OnFailure for the {LAUNCHER} and to Never for the {WORKER}. A worker that has"
                " ended is not created again; one that was deleted is."
            ),
        ),
    ] = None

    @property
    def count(self) -> int:
        """The number of pods, with its default."""
        return 1 if self.replicas is None else self.replicas


class MPIJobSpec(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """``spec`` of an MPIJob."""

    mpi_replica_specs: Annotated[
        dict[str, ReplicaSpec],
        Meta(
            max_length=MAX_TYPES,
            description=(
                f"The pods of the job, by type: one {LAUNCHER}, and the {WORKER}. The job ends as"
                f" the {LAUNCHER} does."
            ),
            extra_json_schema=rules(
                Rule(
                    rule=f"'{LAUNCHER}' in self",
                    message=f"{LAUNCHER} is required: it runs mpirun",
                ),
                Rule(
                    rule=f"self.all(t, t in {list(TYPES)})",
                    message=f"keys must be {LAUNCHER} or {WORKER}",
                ),
                Rule(
                    rule=f"!('{LAUNCHER}' in self) || !has(self.{LAUNCHER}.replicas) ||"
                    f" self.{LAUNCHER}.replicas == 1",
                    message=f"{LAUNCHER}.replicas must be 1",
                ),
                Rule(
                    rule=f"!('{WORKER}' in self) || has(self.{WORKER}.replicas)",
                    message=f"{WORKER}.replicas is required",
                ),
            ),
        ),
    ]
    slots_per_worker: Annotated[
        NonNegative,
        Meta(description="Number of slots of each host in the hostfile. Defaults to 1."),
    ] = 1
    run_launcher_as_worker: Annotated[
        bool,
        Meta(
            description=(
                "Whether ranks are started in the launcher as well; it is then the first host of"
                " the hostfile. Defaults to false."
            )
        ),
    ] = False
    ssh_auth_mount_path: Annotated[
        Annotated[str, Meta(min_length=1, max_length=1024)],
        Meta(
            description=(
                "Directory in which the first container of every pod has the job's ssh keys:"
                f" id_rsa, id_rsa.pub and authorized_keys. Defaults to {DEFAULT_SSH_MOUNT}."
            )
        ),
    ] = DEFAULT_SSH_MOUNT
    launcher_creation_policy: Annotated[
        CreationPolicy,
        Meta(
            description=(
                "When the launcher is created. AtStartup (default): together with the workers."
                " WaitForWorkersReady: when all of them are ready."
            )
        ),
    ] = "AtStartup"
    mpi_implementation: Annotated[
        Implementation,
        Meta(
            description=(
                "OpenMPI (default), Intel or MPICH: the format of the hostfile, and the variables"
                " by which mpirun finds it."
            )
        ),
    ] = "OpenMPI"
    run_policy: Annotated[
        MPIRunPolicy,
        Meta(description="Policies for suspending, retrying and cleaning up the job."),
    ] = field(default_factory=MPIRunPolicy)

    @property
    def launcher(self) -> ReplicaSpec:
        """The launcher."""
        return self.mpi_replica_specs[LAUNCHER]

    @property
    def worker(self) -> ReplicaSpec | None:
        """The workers, if there are any."""
        return self.mpi_replica_specs.get(WORKER)

    @property
    def workers(self) -> int:
        """The number of workers."""
        return self.worker.count if self.worker is not None else 0


def decode(spec: dict[str, Any]) -> MPIJobSpec:
    """Decode a stored ``spec``; templates are completed.

    Raises:
        msgspec.ValidationError: A field is missing or has the wrong type; the message has its path.
    """
    decoded = msgspec.convert(spec, MPIJobSpec)
    replicas = {
        name: structs.replace(each, template=completed(each.template, CONTAINER))
        for name, each in decoded.mpi_replica_specs.items()
    }
    return structs.replace(decoded, mpi_replica_specs=replicas)
