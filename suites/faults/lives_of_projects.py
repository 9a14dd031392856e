"""The life cycles of jobs of other projects' kinds that the operator is killed in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from suites.faults.life import Life

from harness import PODS
from plan.jobset.world import restarting
from plan.mpijob.world import pi
from plan.mxjobv1.world import mxnet
from plan.pytorchjob.world import group, pytorch
from plan.trainjob.world import trained
from traincrew.engine.resources import (
    CONFIG_MAPS,
    JOBS,
    SECRETS,
    SERVICES,
    Resource,
)

if TYPE_CHECKING:
    from harness import Cluster

Document = dict[str, Any]
AUTOSCALERS = Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
JOB_SETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
_TRAINING = "training.kubeflow.org"
_JOB_SET = "jobset.sigs.k8s.io"


def named(manifest: Document, name: str, **spec: Any) -> Document:
    """Return a manifest with another name, and further fields of the spec."""
    return {**manifest, "metadata": {"name": name}, "spec": manifest["spec"] | spec}


class ProjectLife(Life):
    """A job whose pods are identified by their labels."""

    def place(self, pod: Document) -> str:
        """Return the role and index of a pod, such as ``worker-0``."""
        labels = pod["metadata"]["labels"]
        return f"{labels[f'{_TRAINING}/replica-type']}-{labels[f'{_TRAINING}/replica-index']}"

    async def pods(self, cluster: Cluster, *phases: str) -> dict[str, Document]:
        """Return the newest pods of the job, by place; only in these phases, if any are given."""
        selector = f"{self.label}={self.name}"
        items = (await cluster.client.list(PODS, "default", label_selector=selector))["items"]
        return {
            self.place(pod): pod
            for pod in sorted(items, key=lambda pod: int(pod["metadata"]["resourceVersion"]))
            if "deletionTimestamp" not in pod["metadata"]
            and (not phases or pod["status"]["phase"] in phases)
        }

    async def run(self, cluster: Cluster, *places: str) -> dict[str, Document]:
        """Wait for pending pods, exactly these, and set them to running."""

        async def check() -> Any:
            pending = await self.pods(cluster, "Pending")
            return pending if set(pending) == set(places) else None

        found: dict[str, Document] = await cluster.until(check)
        for pod in found.values():
            await cluster.run_pod(pod)
        return found

    async def lose(self, cluster: Cluster, pod: Document) -> None:
        """Delete a pod."""
        await cluster.client.delete(PODS, pod["metadata"]["name"], "default", grace_period=0)

    async def until_children(self, cluster: Cluster, resource: Resource, *names: str) -> None:
        """Wait until the job has only these children of a kind, by their names without its own."""

        async def check() -> bool:
            mine = [each for each in await cluster.all(resource) if self.owns(each)]
            return {each["metadata"]["name"].removeprefix(f"{self.name}-") for each in mine} == set(
                names
            )

        await cluster.until(check)

    async def until_left(self, cluster: Cluster, *places: str) -> None:
        """Wait until the job has only these pods."""

        async def check() -> bool:
            return set(await self.pods(cluster)) == set(places)

        await cluster.until(check)

    async def until_nothing_runs(self, cluster: Cluster, name: str) -> None:
        """Wait until the status, in the field with this name, counts nothing that runs."""

        async def check() -> bool:
            status = (await cluster.job(self.name))["status"]
            running = any(job["active"] or job["ready"] for job in status[name])
            return not running and status["workersReady"].startswith("0/")

        await cluster.until(check)


class MPIJobLife(ProjectLife):
    """Lose a worker, restart the launcher's container, scale out, suspend, scale in, finish."""

    manifest = named(pi(2, cleanPodPolicy="Running"), "ring")
    label = f"{_TRAINING}/job-name"
    children = (SERVICES, CONFIG_MAPS, SECRETS, JOBS)
    writes = (24, 42)
    step = 30

    def place(self, pod: Document) -> str:
        role = pod["metadata"]["labels"][f"{_TRAINING}/job-role"]
        name: str = pod["metadata"]["name"]
        return "launcher" if role == "launcher" else name.removeprefix(f"{self.name}-")

    async def scale(self, cluster: Cluster, workers: int, **policy: Any) -> None:
        """Set the number of workers, and fields of the run policy."""
        specs = {"Worker": {"replicas": workers}}
        await cluster.edit(self.name, {"mpiReplicaSpecs": specs, "runPolicy": policy})

    async def live(self, cluster: Cluster) -> None:
        name = self.name
        pods = await self.run(cluster, "launcher", "worker-0", "worker-1")
        await cluster.until_phase(name, "Running", workersReady="2/2")
        await self.lose(cluster, pods["worker-0"])
        await self.run(cluster, "worker-0")
        await cluster.until_phase(name, "Running", restarts="1")
        await cluster.run_pod(pods["launcher"], restarts=1)
        await cluster.until_phase(name, "Running", restarts="2")

        await self.scale(cluster, 3)
        await self.run(cluster, "worker-2")
        await cluster.until_phase(name, "Running", workersReady="3/3")
        await self.scale(cluster, 3, suspend=True)
        await cluster.until_phase(name, "Suspended")
        await self.until_left(cluster)
        await self.scale(cluster, 1, suspend=False)
        pods = await self.run(cluster, "launcher", "worker-0")
        await cluster.until_phase(name, "Running", workersReady="1/1")
        await self.until_discovered(cluster, 1)

        await cluster.end_pod(pods["launcher"], 0)
        await cluster.until_phase(name, "Succeeded", workersReady="0/1")
        await self.until_left(cluster, "launcher")

    async def until_discovered(self, cluster: Cluster, workers: int) -> None:
        """Wait until the launcher can discover this many workers."""

        async def check() -> bool:
            config = await cluster.find(CONFIG_MAPS, f"{self.name}-config")
            return config is not None and config["data"]["discover_hosts.sh"].count("echo ") == (
                workers
            )

        await cluster.until(check)

    async def end(self, cluster: Cluster) -> None:
        pods = await self.run(cluster, "launcher", "worker-0", "worker-1")
        await cluster.end_pod(pods["launcher"], 0)

    async def has_expired(self, cluster: Cluster) -> bool:
        """Return whether the Job of the launcher is gone; the MPIJob stays."""
        job = await cluster.job(self.name)
        launcher = await cluster.find(JOBS, f"{self.name}-launcher")
        return job.get("status", {}).get("phase") == "Succeeded" and launcher is None


class MPIJobFailure(MPIJobLife):
    """The launcher waits for workers, fails twice, and the job with it."""

    manifest = named(
        pi(1, cleanPodPolicy="All", backoffLimit=1),
        "fails",
        launcherCreationPolicy="WaitForWorkersReady",
    )
    manifest["spec"]["mpiReplicaSpecs"]["Launcher"]["restartPolicy"] = "Never"
    writes = (8, 18)

    async def live(self, cluster: Cluster) -> None:
        await self.run(cluster, "worker-0")
        for failures in range(2):
            pods = await self.run(cluster, "launcher")
            if not failures:
                await cluster.until_phase(self.name, "Running", workersReady="1/1")
            await cluster.end_pod(pods["launcher"], 1)
        await cluster.until_phase(self.name, "Failed", reason="BackoffLimitExceeded")
        await self.until_left(cluster, "launcher")
        await cluster.until_phase(self.name, "Failed", workersReady="0/1")

    async def end(self, cluster: Cluster) -> None:
        await self.run(cluster, "worker-0")
        pods = await self.run(cluster, "launcher")
        await cluster.end_pod(pods["launcher"], 0)


class PyTorchLife(ProjectLife):
    """Kill a worker, lose the master, suspend, finish."""

    manifest = named(pytorch("ExitCode", workers=1), "shards")
    label = f"{_TRAINING}/job-name"
    children: tuple[Resource, ...] = (SERVICES,)
    writes = (18, 32)
    step = 30
    places: tuple[str, ...] = ("master-0", "worker-0")

    async def live(self, cluster: Cluster) -> None:
        name = self.name
        pods = await self.run(cluster, *self.places)
        await cluster.until_phase(name, "Running")
        await cluster.end_pod(pods[self.places[-1]], 137)
        await self.run(cluster, self.places[-1])
        await cluster.until_phase(name, "Running", restarts="1", failures="1")
        await self.lose(cluster, pods[self.places[0]])
        await self.run(cluster, self.places[0])
        await cluster.until_phase(name, "Running", restarts="2", failures="1")

        await cluster.edit(name, {"runPolicy": {"suspend": True}})
        await cluster.until_phase(name, "Suspended")
        await self.until_left(cluster)
        await cluster.edit(name, {"runPolicy": {"suspend": False}})
        await self.end(cluster)
        await cluster.until_phase(name, "Succeeded")

    async def end(self, cluster: Cluster) -> None:
        pods = await self.run(cluster, *self.places)
        await cluster.until_phase(self.name, "Running")
        for place in sorted(pods, reverse=True):  # those that decide come last
            await cluster.end_pod(pods[place], 0)


class PyTorchElasticLife(ProjectLife):
    """Scale out and in; a worker fails for good, and the others are stopped."""

    manifest = named(group(2, "ExitCode", cleanPodPolicy="Running"), "group")
    label = f"{_TRAINING}/job-name"
    children = (SERVICES, AUTOSCALERS)
    writes = (14, 24)
    step = 30

    async def live(self, cluster: Cluster) -> None:
        name = self.name
        await self.run(cluster, "worker-0", "worker-1")
        await cluster.until_phase(name, "Running")
        await cluster.edit(name, {"pytorchReplicaSpecs": {"Worker": {"replicas": 3}}})
        await self.run(cluster, "worker-2")
        await cluster.until_phase(name, "Running", workersReady="3/3")
        await cluster.edit(name, {"pytorchReplicaSpecs": {"Worker": {"replicas": 2}}})
        await self.until_left(cluster, "worker-0", "worker-1")
        await cluster.until_phase(name, "Running", workersReady="2/2")

        await cluster.end_pod((await self.pods(cluster))["worker-1"], 1)
        await cluster.until_phase(name, "Failed")
        await self.until_left(cluster, "worker-1")
        await cluster.until_phase(name, "Failed", workersReady="0/2")
        await self.until_children(cluster, SERVICES, "worker-1")

    async def end(self, cluster: Cluster) -> None:
        for pod in (await self.run(cluster, "worker-0", "worker-1")).values():
            await cluster.end_pod(pod, 0)


class MXJobLife(PyTorchLife):
    """The same with a scheduler, a server and a worker of MXNet."""

    manifest = named(mxnet("ExitCode"), "parameters")
    manifest["spec"]["mxReplicaSpecs"]["Worker"]["replicas"] = 1
    writes = (26, 38)
    places = ("scheduler-0", "server-0", "worker-0")


class JobSetLife(ProjectLife):
    """A Job fails and all are restarted; suspend, resume, finish."""

    manifest = named(restarting(limit=2), "team")
    label = f"{_JOB_SET}/jobset-name"
    children: tuple[Resource, ...] = (SERVICES, JOBS)
    writes = (26, 40)
    step = 30
    places: tuple[str, ...] = ("driver-0", "workers-0", "workers-1")

    def place(self, pod: Document) -> str:
        labels = pod["metadata"]["labels"]
        return f"{labels[f'{_JOB_SET}/replicatedjob-name']}-{labels[f'{_JOB_SET}/job-index']}"

    async def live(self, cluster: Cluster) -> None:
        name = self.name
        pods = await self.run(cluster, *self.places)
        await cluster.until_phase(name, "Running")
        await cluster.end_pod(pods["workers-1"], 1)
        await self.run(cluster, *self.places)
        await cluster.until_phase(name, "Running", restarts="1")

        await cluster.edit(name, {"suspend": True})
        await cluster.until_phase(name, "Suspended")
        await self.until_left(cluster)
        await cluster.edit(name, {"suspend": False})
        await self.end(cluster)
        await cluster.until_phase(name, "Succeeded", restarts="1", terminalState="Completed")

    async def end(self, cluster: Cluster) -> None:
        pods = await self.run(cluster, *self.places)
        await cluster.until_phase(self.name, "Running")
        for pod in pods.values():
            await cluster.end_pod(pod, 0)

    def expiring(self) -> Document:
        return named(self.manifest, self.name, ttlSecondsAfterFinished=0)


class JobSetFailure(JobSetLife):
    """A single Job is restarted, then all are, then the JobSet fails; what runs is stopped."""

    manifest = named(
        restarting({"action": "RestartJob", "targetReplicatedJobs": ["workers"]}, limit=2), "breaks"
    )
    writes = (22, 36)

    async def live(self, cluster: Cluster) -> None:
        name = self.name
        pods = await self.run(cluster, *self.places)
        await cluster.until_phase(name, "Running")
        await cluster.end_pod(pods["workers-0"], 1)
        pods |= await self.run(cluster, "workers-0")
        await cluster.until_phase(name, "Running", replicatedJobsStatus="'jobRestarts': [1, 0]")
        await cluster.end_pod(pods["driver-0"], 1)
        pods = await self.run(cluster, *self.places)
        await cluster.until_phase(name, "Running", restarts="1")
        await cluster.end_pod(pods["driver-0"], 1)
        await cluster.until_phase(name, "Failed", terminalState="Failed")
        await self.until_left(cluster, "driver-0")
        await self.until_children(cluster, JOBS, "driver-0")
        await self.until_nothing_runs(cluster, "replicatedJobsStatus")


class TrainJobLife(JobSetLife):
    """Suspend a job of two nodes, resume it with a patch of its runtime, finish."""

    manifest = named(trained(trainer={"numNodes": 2}), "nodes")
    children = (JOB_SETS, *JobSetLife.children)
    writes = (26, 40)
    places = ("node-0", "node-1")
    expires = False

    def place(self, pod: Document) -> str:
        labels = pod["metadata"]["labels"]
        index = labels["batch.kubernetes.io/job-completion-index"]
        return f"{labels[f'{_JOB_SET}/replicatedjob-name']}-{index}"

    async def live(self, cluster: Cluster) -> None:
        name = self.name
        await self.run(cluster, *self.places)
        await cluster.until_phase(name, "Running", workersReady="2/2")
        await cluster.edit(name, {"suspend": True})
        await cluster.until_phase(name, "Suspended")
        await self.until_left(cluster)
        selector = {"spec": {"nodeSelector": {"kubernetes.io/os": "linux"}}}
        job = {"name": "node", "template": {"spec": {"template": selector}}}
        template = {"spec": {"replicatedJobs": [job]}}
        patch = {"manager": "example.com/me", "trainingRuntimeSpec": {"template": template}}
        await cluster.edit(name, {"runtimePatches": [patch]})
        await cluster.edit(name, {"suspend": False})
        await self.end(cluster)
        await cluster.until_phase(name, "Succeeded")


class TrainJobFailure(TrainJobLife):
    """A launcher of MPI fails for good."""

    manifest = named(trained("deepspeed-distributed", trainer={"numNodes": 2}), "speed")
    children = (SECRETS, CONFIG_MAPS, *TrainJobLife.children)
    writes = (14, 32)
    places = ("launcher-0", "node-0")

    async def live(self, cluster: Cluster) -> None:
        pods = await self.run(cluster, *self.places)
        await cluster.until_phase(self.name, "Running")
        await cluster.run_pod(pods["launcher-0"], restarts=7)
        await cluster.until_phase(self.name, "Failed", reason="FailedJobs")
        await self.until_left(cluster)
        await self.until_children(cluster, JOBS, "launcher-0")
        await self.until_nothing_runs(cluster, "jobsStatus")


LIVES = [
    MPIJobLife(),
    MPIJobFailure(),
    PyTorchLife(),
    PyTorchElasticLife(),
    MXJobLife(),
    JobSetLife(),
    JobSetFailure(),
    TrainJobLife(),
    TrainJobFailure(),
]
