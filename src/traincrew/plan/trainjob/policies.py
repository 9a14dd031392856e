"""What the policy of a runtime adds to the pods, so that they find each other.

Variables, ports, volumes and files are the contract of Trainer 2.2.0 (``pkg/runtime/framework/
plugins``). The variables of the trainer are added to a job only if it has `spec.trainer`, as there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.api.kinds.trainjob import resources, torchtune
from traincrew.api.kinds.trainjob.rules import LAUNCHER
from traincrew.api.kinds.trainjob.runtime import TRAINER, MPIPolicy
from traincrew.api.kinds.trainjob.types import NODE
from traincrew.plan.trainjob.podsets import index_variable, variable

if TYPE_CHECKING:
    from traincrew.api.kinds.trainjob.runtime import Runtime
    from traincrew.api.kinds.trainjob.types import Trainer, TrainJobSpec
    from traincrew.plan.trainjob.podsets import Container, PodSet

Document = dict[str, Any]

PORT = 29500
"""Where the first node is reached."""
KEYS, HOSTS = "mpi-ssh-auth", "mpi-hostfile"
"""Names of volumes, and behind the name of the job those of their Secret and ConfigMap."""
HOSTFILE = "hostfile"
HOSTS_MOUNT = "/etc/mpi"


class Policies:
    """The policy of one job.

    Args:
        name: Name of the job.
        spec: The job.
        runtime: Its runtime.
        sets: Its replicated jobs, which are changed.
    """

    def __init__(self, name: str, spec: TrainJobSpec, runtime: Runtime, sets: list[PodSet]) -> None:
        self._name, self._spec, self._sets = name, spec, sets
        self._runtime, self._policy = runtime, runtime.spec.policy
        self._resources = resources.per_node(spec, runtime)
        self._nodes = spec.trainer.num_nodes if spec.trainer is not None else None
        for each in sets:
            if each.step == TRAINER and runtime.spec.ml_policy is not None:
                each.count = max(self._policy.num_nodes or 1, 1)

    def apply(self) -> None:
        """Add what the policy demands."""
        if self._policy.mpi is not None:
            self._mpi(self._policy.mpi)
            return
        trainer = next((each for each in self._sets if each.step == TRAINER), None)
        if trainer is None:
            return
        trainer.count = self._nodes or trainer.count
        container = trainer.container(NODE)
        if container is None or self._spec.trainer is None:
            return
        if self._policy.jax is None:
            container.add_env(self._spec.trainer.env or [])
        if self._policy.torch is not None:
            self._torch(container, trainer.count)
        elif self._policy.jax is not None:
            self._jax(container, trainer.count)
        elif self._policy.xgboost is not None:
            self._xgboost(container, trainer.count)

    @property
    def _first(self) -> str:
        """The address of the first node."""
        return f"{self._name}-{NODE}-0-0.{self._name}"

    # -- frameworks ---------------------------------------------------------------------------

    def _torch(self, container: Container, nodes: int) -> None:
        trainer = self._spec.trainer
        assert trainer is not None
        container.add_env(
            [
                variable("PET_NNODES", nodes),
                variable("PET_NPROC_PER_NODE", self._processes(trainer)),
                index_variable("PET_NODE_RANK"),
            ]
        )
        if not torchtune.is_meant(trainer):
            container.add_env(
                [variable("PET_MASTER_ADDR", self._first), variable("PET_MASTER_PORT", PORT)]
            )
        container.add_port(PORT)

    def _processes(self, trainer: Trainer) -> int | str:
        """Return the number of processes of a node; ``auto`` is one for each GPU."""
        if trainer.num_proc_per_node is not None:
            return trainer.num_proc_per_node
        if resources.gpus(self._resources):
            return "auto"
        return max(1, resources.cpus(self._resources))

    def tune_command(self) -> list[str] | None:
        """Return the command of a job of torchtune; None for any other job."""
        trainer = self._spec.trainer
        if trainer is None or self._policy.torch is None or not torchtune.is_meant(trainer):
            return None
        size = torchtune.Nodes(
            self._nodes or self._policy.num_nodes or 1,
            self._processes(trainer),
            resources.gpus(self._resources),
        )
        recipe, config = torchtune.recipe(size, self._runtime.name, trainer.args or [])
        meeting = [f"--rdzv_endpoint={self._first}:{PORT}"] if size.are_several else []
        kept = [
            each
            for job in self._sets
            if job.step == TRAINER and (found := job.container(NODE)) is not None
            for each in found.document.get("command") or []
            if each.partition("=")[0] in torchtune.KEPT
        ]
        return [*torchtune.COMMAND, *meeting, recipe, "--config", config, *kept]

    def _jax(self, container: Container, nodes: int) -> None:
        container.add_env(
            [
                variable("JAX_NUM_PROCESSES", nodes),
                index_variable("JAX_PROCESS_ID"),
                variable("JAX_COORDINATOR_ADDRESS", f"{self._first}:{PORT}"),
            ]
        )
        container.add_port(PORT)

    def _xgboost(self, container: Container, nodes: int) -> None:
        workers = nodes * max(1, resources.gpus(self._resources))
        container.add_env(
            [
                variable("DMLC_TRACKER_URI", self._first),
                variable("DMLC_TRACKER_PORT", PORT),
                index_variable("DMLC_TASK_ID"),
                variable("DMLC_NUM_WORKER", workers),
            ]
        )
        container.add_port(PORT)

    # -- MPI ----------------------------------------------------------------------------------

    def _mpi(self, policy: MPIPolicy) -> None:
        for each in self._sets:
            if each.name == NODE and self._nodes is not None:
                # One of the nodes is the launcher.
                each.count = max(self._nodes - policy.run_launcher_as_node, 1)
        slots = self.slots(policy)
        for each in self._sets:
            if each.name in {NODE, LAUNCHER}:
                self._equip(each, policy, slots)

    def slots(self, policy: MPIPolicy) -> int:
        """Return the number of processes on each host of the hostfile."""
        trainer = self._spec.trainer
        if trainer is not None and trainer.num_proc_per_node is not None:
            return trainer.num_proc_per_node
        if policy.num_proc_per_node == 1:
            return max(1, resources.gpus(self._resources))
        return policy.num_proc_per_node

    def _equip(self, pods: PodSet, policy: MPIPolicy, slots: int) -> None:
        """Give the pods ssh keys, and the launcher the hostfile."""
        pods.add_volume(_keys(self._name))
        is_launcher = pods.name == LAUNCHER
        if is_launcher:
            pods.add_volume(_hosts(self._name))
        container = pods.container(NODE)
        if container is None:
            return
        container.add_mount(KEYS, policy.ssh_auth_mount_path)
        if is_launcher:
            container.add_mount(HOSTS, HOSTS_MOUNT)
            container.add_env(
                [
                    variable("OMPI_MCA_orte_default_hostfile", f"{HOSTS_MOUNT}/{HOSTFILE}"),
                    variable("OMPI_MCA_orte_keep_fqdn_hostnames", "true"),
                    variable("OMPI_MCA_orte_set_default_slots", slots),
                    variable("OMPI_MCA_plm_rsh_args", "-o ConnectionAttempts=10"),
                ]
            )

    def hostfile(self, policy: MPIPolicy, subdomain: str) -> str:
        """Return the hosts on which mpirun starts processes, with their slots."""
        names = {NODE, LAUNCHER} if policy.run_launcher_as_node else {NODE}
        slots = self.slots(policy)
        return "".join(
            f"{self._name}-{each.name}-0-{index}.{subdomain} slots={slots}\n"
            for each in self._sets
            if each.name in names
            for index in range(each.count)
        )


def _keys(job: str) -> Document:
    items = [
        {"key": "ssh-privatekey", "path": "id_rsa"},
        {"key": "ssh-publickey", "path": "id_rsa.pub"},
        {"key": "ssh-publickey", "path": "authorized_keys"},
    ]
    return {"name": KEYS, "secret": {"secretName": f"{job}-{KEYS}", "items": items}}


def _hosts(job: str) -> Document:
    items = [{"key": HOSTFILE, "path": HOSTFILE, "mode": 0o444}]
    return {"name": HOSTS, "configMap": {"name": f"{job}-{HOSTS}", "items": items}}
