"""The life cycles of jobs that the operator is killed in, one of each kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from suites.faults.life import Life

from harness import PODS
from plan.chainerjob.world import distributed
from plan.elasticjob.world import elastic
from plan.mpicluster.manifests import one_shot, without_ssh
from plan.mxjob.manifests import OLDER_GROUP, template
from plan.mxjob.manifests import distributed as parameter_servers
from traincrew.engine.resources import (
    CONFIG_MAPS,
    JOBS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
)

if TYPE_CHECKING:
    from harness import Cluster
    from traincrew.engine.resources import Resource

Document = dict[str, Any]


class ChainerLife(Life):
    """Lose a worker, restart the master's container, scale up and down, finish."""

    manifest = distributed()
    del manifest["spec"]["backend"], manifest["spec"]["master"]["mpiConfig"]
    label = "chainerjob.kubeflow.org/name"
    children = (SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, CONFIG_MAPS, STATEFUL_SETS, JOBS)
    # The number of writes depends on how many changes share a status write; this covers the longest
    # life cycle observed. Numbers beyond its end repeat it without a crash.
    writes = (16, 34)
    step = 5

    async def live(self, cluster: Cluster) -> None:
        name = self.name
        await cluster.run_workers(2)
        master = await cluster.run_master()
        await cluster.until_phase(name, "Running", workersReady="2/2")

        lost, _ = await cluster.pods("workerset")
        await cluster.client.delete(PODS, lost["metadata"]["name"], "default", grace_period=0)
        await _replaced(cluster, lost)
        await cluster.until_phase(name, "Running", restarts="1")

        await cluster.run_pod(master, restarts=1)
        await cluster.until_phase(name, "Running", restarts="2")

        await cluster.edit(name, {"workerSets": {"ws0": {"replicas": 3}}})
        await cluster.run_workers(3)
        await cluster.until_phase(name, "Running", workersReady="3/3")
        await cluster.edit(name, {"workerSets": {"ws0": {"replicas": 1}}})
        await cluster.until_phase(name, "Running", workersReady="1/1")

        await cluster.end_pod(master, 0)
        await cluster.until_phase(name, "Succeeded", workersReady="0/0")

        async def stopped() -> bool:
            roles = (await cluster.job(name))["status"]["replicaStatuses"].values()
            return not any(role.get("active") for role in roles)

        # A finished job has no workers, but the last ones may not be deleted yet.
        await cluster.until(stopped)

    async def end(self, cluster: Cluster) -> None:
        await cluster.run_workers(2)
        await cluster.end_pod(await cluster.run_master(), 0)


class ElasticLife(Life):
    """Lose a worker, kill one, suspend, scale out and in, finish."""

    manifest = elastic(2, minReplicas=None, cleanPodPolicy="All")
    label = "job-name"
    children = (SERVICES,)
    writes = (20, 44)
    step = 9

    async def live(self, cluster: Cluster) -> None:
        name = self.name
        await cluster.run_members(name, 2)
        await cluster.until_phase(name, "Running", workersReady="2/2")
        lost, killed = await cluster.members(name)
        await cluster.client.delete(PODS, lost["metadata"]["name"], "default", grace_period=0)
        await _replaced(cluster, lost)
        await cluster.until_phase(name, "Running", restarts="1")

        await cluster.end_pod(killed, 137)
        await _replaced(cluster, killed)
        await cluster.until_phase(name, "Running", restarts="2", failures="1")

        await cluster.edit(name, {"suspend": True})
        await cluster.until_members(name, 0)
        await cluster.until_phase(name, "Suspended", reason="ElasticJobSuspended")
        await cluster.edit(
            name,
            {"suspend": False, "minReplicas": 1, "replicaSpecs": {"Worker": {"replicas": 3}}},
        )
        await cluster.run_members(name, 3)
        await cluster.until_phase(name, "Running", workersReady="3/3")
        await cluster.edit(name, {"replicaSpecs": {"Worker": {"replicas": 1}}})
        (last,) = await cluster.until_members(name, 1)
        await cluster.until_phase(name, "Running", workersReady="1/1")
        await self.until_services(cluster, 1)

        await cluster.end_pod(last, 0)
        await cluster.until_phase(name, "Succeeded")
        await cluster.until_members(name, 0)
        await self.until_services(cluster, 0)
        await cluster.until_phase(name, "Succeeded", workersReady="0/1")

    async def until_services(self, cluster: Cluster, count: int) -> None:
        async def check() -> bool:
            mine = [item for item in await cluster.all(SERVICES) if self.owns(item)]
            return len(mine) == count

        await cluster.until(check)

    async def end(self, cluster: Cluster) -> None:
        for pod in await cluster.run_members(self.name, 2):
            await cluster.end_pod(pod, 0)

    def expiring(self) -> Document:
        return {**self.manifest, "spec": self.manifest["spec"] | {"ttlSecondsAfterFinished": 0}}


class MxLife(Life):
    """Kill a server, delete a worker's Job, suspend, finish."""

    manifest = parameter_servers("shards", workers=1, RuntimeId="r1")
    label = "mxnet.mlkube.io/job-name"
    children = (SERVICES, JOBS)
    writes = (30, 48)
    step = 16

    async def live(self, cluster: Cluster) -> None:
        name = self.name
        replicas = await cluster.run_replicas(name, 3)
        await cluster.until_phase(name, "Running")
        await cluster.end_pod(replicas["server-0"], 137)
        await cluster.run_replicas(name, 3)
        await cluster.until_phase(name, "Running", restarts="1", failures="1")

        await cluster.client.delete(JOBS, f"{name}-worker-r1-0", "default")
        await cluster.run_replicas(name, 3)
        await cluster.until_phase(name, "Running", restarts="2", failures="1")

        await cluster.edit(name, {"runPolicy": {"suspend": True}})
        await cluster.until_phase(name, "Suspended")
        await cluster.edit(name, {"runPolicy": {"suspend": False}})
        replicas = await cluster.run_replicas(name, 3)
        await cluster.until_phase(name, "Running", attempt="3")
        for key in sorted(replicas):  # the last one, without which it does not end, is a worker
            await cluster.end_pod(replicas[key], 0)
        await cluster.until_phase(name, "Done", state="Succeeded")

    async def end(self, cluster: Cluster) -> None:
        for pod in (await cluster.run_replicas(self.name, 3)).values():
            await cluster.end_pod(pod, 0)


class MxFailure(Life):
    """A worker fails for good, in the older API group; the other replicas are stopped."""

    manifest = parameter_servers("fails", workers=1, group=OLDER_GROUP, RuntimeId="r1")
    label = MxLife.label
    children = MxLife.children
    writes = (8, 16)
    step = 16

    async def live(self, cluster: Cluster) -> None:
        await self.end(cluster)
        await cluster.until_phase(self.name, "Done", state="Failed")

        async def stopped() -> bool:
            types = (await cluster.job(self.name))["status"]["replicaStatuses"]
            left = set(await cluster.replicas(self.name))
            return left == {"worker-0"} and not any(each["active"] for each in types)

        await cluster.until(stopped)

    async def end(self, cluster: Cluster) -> None:
        replicas = await cluster.run_replicas(self.name, 3)
        await cluster.until_phase(self.name, "Running")
        await cluster.end_pod(replicas["worker-0"], 3)


class MxRecovery(Life):
    """A worker is lost; it alone is recreated, when MXNet's scheduler has noticed its loss."""

    manifest = parameter_servers("mends", workers=2, RuntimeId="r1", recoverWorkers=True)
    manifest["spec"]["replicaSpecs"][0]["template"] = template(
        env=[{"name": "PS_HEARTBEAT_TIMEOUT", "value": "1"}]
    )
    label = MxLife.label
    children = MxLife.children
    writes = (12, 18)
    step = 16
    stride = 3

    async def live(self, cluster: Cluster) -> None:
        replicas = await cluster.run_replicas(self.name, 4)
        await cluster.until_phase(self.name, "Running")
        await cluster.end_pod(replicas["worker-1"], 137)
        replicas |= await cluster.run_replicas(self.name, 1)
        await cluster.until_phase(self.name, "Running", failures="1", restarts="1")
        assert (await cluster.job(self.name))["status"]["recoveries"] == {"1": 1}
        for key in sorted(replicas):
            await cluster.end_pod(replicas[key], 0)
        await cluster.until_phase(self.name, "Done", state="Succeeded")

    async def end(self, cluster: Cluster) -> None:
        for pod in (await cluster.run_replicas(self.name, 4)).values():
            await cluster.end_pod(pod, 0)


class MpiLife(Life):
    """Lose a worker and the master, scale up, suspend, retry the command, finish."""

    manifest = one_shot("ring", workers=2, ssh={"gateway": {"enabled": True}})
    label = "mpicluster.traincrew.dev/name"
    children: tuple[Resource, ...] = (CONFIG_MAPS, SERVICES, STATEFUL_SETS)
    writes = (20, 50)
    step = 16

    async def live(self, cluster: Cluster) -> None:
        name = self.name
        await cluster.run_hosts(name, "worker-0", "worker-1")
        await cluster.run_hosts(name, "master")
        await cluster.until_phase(name, "Running", workersReady="2/2")

        for restarts, host in enumerate(("worker-0", "master"), 1):
            await cluster.client.delete(PODS, f"{name}-{host}", "default", grace_period=0)
            await cluster.run_hosts(name, host)
            await cluster.until_phase(name, "Running", restarts=str(restarts))

        await cluster.edit(name, {"workers": {"replicas": 3}})
        await cluster.run_hosts(name, "worker-2")
        await self.until_hostfile(cluster, "master", "worker-0", "worker-1", "worker-2")

        await cluster.edit(name, {"runPolicy": {"suspend": True}})
        await cluster.until_phase(name, "Suspended")
        await self.until_left(cluster)  # a worker that is still there stays when it is wanted again
        await cluster.edit(name, {"workers": {"replicas": 1}, "runPolicy": {"suspend": False}})
        await cluster.run_hosts(name, "worker-0")
        await cluster.run_hosts(name, "master")
        await cluster.until_phase(name, "Running", workersReady="1/1")
        await self.until_hostfile(cluster, "master", "worker-0")

        master = (await cluster.hosts(name))["master"]
        await cluster.run_pod(master, restarts=1)
        await cluster.until_phase(name, "Running", restarts="3", failures="1")
        await cluster.end_pod(master, 0)
        await cluster.until_phase(name, "Succeeded", workersReady="0/1")
        await self.until_hostfile(cluster, "master", "worker-0")
        await self.until_left(cluster, "master")

    async def until_left(self, cluster: Cluster, *hosts: str) -> None:
        """Wait until only these pods are left."""

        async def check() -> bool:
            return set(await cluster.hosts(self.name)) == set(hosts)

        await cluster.until(check)

    async def until_hostfile(self, cluster: Cluster, *hosts: str) -> None:
        """Wait until these are the hosts of the hostfile."""

        async def check() -> bool:
            assets = await cluster.find(CONFIG_MAPS, f"{self.name}-assets")
            lines = assets["data"]["hostfile"].splitlines() if assets is not None else []
            return [line.partition(".")[0] for line in lines] == [
                f"{self.name}-{host}" for host in hosts
            ]

        await cluster.until(check)

    async def end(self, cluster: Cluster) -> None:
        await cluster.run_hosts(self.name, "worker-0", "worker-1")
        masters = await cluster.run_hosts(self.name, "master")
        await cluster.end_pod(masters["master"], 0)


class MpiExecLife(MpiLife):
    """The same without ssh: the Role follows the workers."""

    manifest = without_ssh("agents", workers=2)
    children = (SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, *MpiLife.children)
    writes = (24, 60)


LIVES = [
    ChainerLife(),
    ElasticLife(),
    MxLife(),
    MxFailure(),
    MxRecovery(),
    MpiLife(),
    MpiExecLife(),
]


async def _replaced(cluster: Cluster, lost: dict[str, Any]) -> None:
    async def check() -> Any:
        found = await cluster.find(PODS, lost["metadata"]["name"])
        return found if found and found["metadata"]["uid"] != lost["metadata"]["uid"] else None

    await cluster.run_pod(await cluster.until(check))
