"""Least privilege: the operator is allowed everything it does, and nothing else.

The whole life of jobs, with everything that can go wrong in it, is lived once on the embedded
cluster, which notes all requests; the roles of the installation are judged by them. (That cluster
has no RBAC itself. The suite of the real cluster does the same with one that has.)
"""

from __future__ import annotations

import asyncio
import copy
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import Struct

import gangs_api
import queues_api
from authorization import Judgement, Permission, implied, judge, of_account, of_http, of_rules
from clusters import cluster, impatient
from harness import CHAINER_JOBS, ELASTIC_JOBS, OPERATOR_AGENT, Cluster
from plan.chainerjob.world import distributed, plain
from plan.elasticjob.world import elastic
from plan.jobset import world as jobsets
from plan.mpicluster.manifests import interactive
from plan.mpijob import world as mpijobs
from plan.mxjob import manifests as mxjobs
from plan.mxjobv1 import world as mxnetjobs
from plan.pytorchjob import world as pytorchjobs
from plan.shared.test_pods import NO_WORDS
from plan.trainjob import world as trainjobs
from traincrew.engine.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    JOBS,
    NAMESPACES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from traincrew.local.apiserver.http.faults import refuse
from traincrew.operator.app import run_operator
from traincrew.operator.kinds import OF_OTHERS, RESOURCES
from traincrew.operator.manifests import documents
from traincrew.operator.manifests.values import parse
from traincrew.operator.options import OperatorOptions
from traincrew.operator.queues import WORKLOADS

if TYPE_CHECKING:
    from traincrew.local.apiserver.http.faults import Fault

__all__ = ["cluster", "impatient"]

Document = dict[str, Any]
pytestmark = pytest.mark.usefixtures("impatient")
NAMESPACE = "chainer-operator"
PLURALS = {
    **{kind.kind: kind.plural for kind in RESOURCES},
    "Job": "jobs",
    "StatefulSet": "statefulsets",
}
JOB_SETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
NETWORK_POLICIES = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
CHILDREN = (
    SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, CONFIG_MAPS, STATEFUL_SETS, JOBS, SERVICES, PODS,
    SECRETS, POD_DISRUPTION_BUDGETS, NETWORK_POLICIES,
)  # fmt: skip
OF_MPI = {
    SECRETS: "ssh-key",
    POD_DISRUPTION_BUDGETS: "worker-pdb",
    NETWORK_POLICIES: "allow-internal",
}
"""Children that only MPIClusters have, with the ends of their names."""


def granted(**values: Any) -> set[Permission]:
    """What an installation allows the operator."""
    objects = [found for contents in documents(parse(values)).values() for found in contents]
    return of_account(objects, "chainer-operator", NAMESPACE)


def queued(name: str, **labels: str) -> Document:
    """An ElasticJob in a queue."""
    job = elastic()
    job["metadata"] |= {"name": name, "labels": {queues_api.QUEUE: "all", **labels}}
    return job


# -- the life of jobs ---------------------------------------------------------------------------


class Life:
    """Runs jobs, and records the permissions that the operator needed."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.needed: set[Permission] = set()
        self.streams_lists = True
        """Without its feature WatchList a server has to be asked for a list before each watch."""

    def hear(self, method: str, path: str, agent: str) -> Fault | None:
        """The API server's hook for requests that arrive."""
        if agent.startswith(OPERATOR_AGENT) and (request := of_http(method, path)) is not None:
            self.needed.add(request)
        if self.streams_lists or "sendInitialEvents" not in path:
            return None
        text = "sendInitialEvents is forbidden for watch unless the WatchList feature is on"
        return refuse(422, text)

    async def note_grants(self) -> None:
        """What was asked about the objects the operator has made."""
        kinds = {kind.kind for kind in RESOURCES}
        for resource in CHILDREN:
            for item in await self.cluster.all(resource):
                owners = item["metadata"].get("ownerReferences", [])
                if any(owner["kind"] in kinds for owner in owners):
                    document = {"apiVersion": resource.api_version, "kind": resource.kind, **item}
                    self.needed |= implied(document, PLURALS)

    async def live(self, **options: Any) -> None:
        cluster = self.cluster
        cluster.server.faults = self.hear
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        await cluster.client.create(NAMESPACES, namespace)
        election = {"leader_elect": True, "lease_namespace": NAMESPACE, "kinds": (), **options}
        await cluster.start_operator(identity="leader", **election)
        await self.scaled_suspended_and_mended()
        await self.elastic()
        await self.parameter_servers()
        await self.connected_by_ssh()
        await self.connected_by_exec()
        await self.placed_together()
        await self.queued()
        await self.note_grants()
        self.streams_lists = False
        stop = asyncio.Event()
        second = OperatorOptions(identity="standby", **election)
        standby = asyncio.create_task(run_operator(cluster.config, second, stop))
        await cluster.until(self.standby_watches)
        await cluster.stop_operator()
        await self.ended_and_gone()
        await self.elastic_ended_and_gone()
        await self.parameter_servers_ended_and_gone()
        await self.connected_by_ssh_ended_and_gone()
        await self.log_is_read()
        for resource in CHILDREN:
            await self.something_in_the_way(resource)
        stop.set()
        await standby

    async def placed_together(self) -> None:
        """Gangs of every scheduler whose API there may be, one after the other."""
        for group, version, scheduler in (
            ("scheduling.volcano.sh", "v1beta1", "volcano"),
            ("scheduling.run.ai", "v2alpha2", "kai-scheduler"),
            ("scheduling.x-k8s.io", "v1alpha1", ""),
            ("scheduling.k8s.io", "v1beta1", ""),
            ("scheduling.k8s.io", "v1alpha2", ""),
        ):
            await self.placed_by(group, version, scheduler)

    async def placed_by(self, group: str, version: str, scheduler: str) -> None:
        cluster, name = self.cluster, f"gang-{version}"
        resource = Resource(group, version, "podgroups", "PodGroup")
        document = gangs_api.definition(resource)
        await cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, document)
        await cluster.until(lambda: gangs_api.is_served(cluster.client, resource))
        manifest = elastic(2, minReplicas=1, schedulingPolicy={"minAvailable": 2})
        manifest["metadata"]["name"] = name
        if scheduler:
            pod = manifest["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]
            pod["schedulerName"] = scheduler
        await cluster.create(manifest)

        async def sized(wanted: int) -> bool:
            listed = (await cluster.client.list(resource, "default"))["items"]
            found = gangs_api.owned(listed, name)
            return found is not None and gangs_api.size(found) == wanted

        await cluster.until(lambda: sized(2))
        await cluster.until_members(name, 2)
        await cluster.edit(name, {"suspend": True})
        await cluster.until_phase(name, "Suspended", reason="ElasticJobSuspended")
        policy = {"minAvailable": 1}
        await cluster.edit(name, {"suspend": False, "schedulingPolicy": policy})
        await cluster.until(lambda: sized(1))
        await cluster.client.delete(cluster.kind_of(name), name, "default")
        await cluster.client.delete(CUSTOM_RESOURCE_DEFINITIONS, document["metadata"]["name"])

        async def gone() -> bool:
            return not await gangs_api.is_served(cluster.client, resource)

        await cluster.until(gone)

    async def queued(self) -> None:
        """Jobs of each class of priority in a queue: admitted, evicted, and out of the queue."""
        cluster = self.cluster
        await queues_api.install(cluster)
        ranked = queued("ranked", **{queues_api.PRIORITY_CLASS: queues_api.CLASS})
        named = queued("named")
        pod = named["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]
        pod["priorityClassName"] = "system-cluster-critical"
        for manifest in (ranked, named, queued("plain")):
            await cluster.create(manifest)
        await cluster.until_phase("named", "Suspended")
        await queues_api.admit(cluster, "ranked")
        await cluster.run_members("ranked", 2)

        async def told(kind: str, status: str) -> bool:
            found = await queues_api.until_workload(cluster, "ranked")
            return queues_api.said(found).get(kind) == status

        await cluster.until(lambda: told("PodsReady", "True"))
        await queues_api.evict(cluster, "ranked")
        await cluster.until(lambda: told("QuotaReserved", "False"))
        await queues_api.until_workload(cluster, "plain")
        labels = {"metadata": {"labels": {queues_api.QUEUE: None}}}
        kind = cluster.kind_of("plain")
        await cluster.client.patch(kind, "plain", "default", patch=labels)
        await cluster.until_members("plain", 2)
        for name in ("ranked", "named", "plain"):
            await cluster.client.delete(kind, name, "default")

        async def nothing_left() -> bool:
            found = await cluster.client.list(WORKLOADS, "default")
            return not found["items"]

        await cluster.until(nothing_left)

    async def standby_watches(self) -> bool:
        return any(each.resource == "leases" and each.verb == "watch" for each in self.needed)

    async def scaled_suspended_and_mended(self) -> None:
        cluster, name = self.cluster, "digits-mn"
        manifest = distributed(runPolicy={"cleanPodPolicy": "All"})
        del manifest["spec"]["backend"]  # which is filled in
        await cluster.create(manifest)
        await cluster.run_workers(2)
        await cluster.run_master()
        await cluster.until_phase(name, "Running", workersReady="2/2")

        await cluster.edit(name, {"workerSets": {"ws0": {"replicas": 3}}})
        await cluster.run_workers(3)
        await cluster.until_phase(name, "Running", workersReady="3/3")
        await self.until_synced_again(name)

        subjects: list[Document] = []
        await cluster.client.patch(
            ROLE_BINDINGS, f"{name}-launcher-rolebinding", "default", patch={"subjects": subjects}
        )
        await cluster.client.patch(
            CONFIG_MAPS, f"{name}-assets", "default", patch={"data": {"kubexeb.sh": "gone"}}
        )

        async def mended() -> bool:
            binding = await cluster.find(ROLE_BINDINGS, f"{name}-launcher-rolebinding")
            assets = await cluster.find(CONFIG_MAPS, f"{name}-assets")
            assert binding is not None
            assert assets is not None
            return bool(binding.get("subjects")) and assets["data"]["kubexeb.sh"] != "gone"

        await cluster.until(mended)
        label = "chainerjob.kubeflow.org/name"
        await self.label_comes_back(SERVICE_ACCOUNTS, f"{name}-launcher", label)
        await cluster.edit(name, {"runPolicy": {"suspend": True}})
        await cluster.until_phase(name, "Suspended", reason="ChainerJobSuspended")
        await cluster.edit(name, {"runPolicy": {"suspend": False, "activeDeadlineSeconds": 3600}})
        await cluster.run_workers(3)
        await cluster.run_master()
        await cluster.until_phase(name, "Running", workersReady="3/3")

        workers = manifest["spec"]["workerSets"]["ws0"]
        await cluster.edit(name, {"workerSets": {"ws0": None, "other": {**workers, "replicas": 1}}})

        async def replaced() -> bool:
            return await cluster.find(STATEFUL_SETS, f"{name}-workerset-ws0") is None

        await cluster.until(replaced)

    async def label_comes_back(self, resource: Resource, name: str, label: str) -> None:
        """Somebody removes the label by which an object is found."""
        patch = {"metadata": {"labels": {label: None}}}
        await self.cluster.client.patch(resource, name, "default", patch=patch)

        async def labelled() -> bool:
            found = await self.cluster.find(resource, name)
            return found is not None and label in found["metadata"].get("labels", {})

        await self.cluster.until(labelled)

    async def elastic(self) -> None:
        """Limits are filled in, workers come and go."""
        cluster, name = self.cluster, "flowers"
        await cluster.create(elastic(2, minReplicas=None))
        await cluster.run_members(name, 2)
        await cluster.until_phase(name, "Running", workersReady="2/2")
        await cluster.edit(name, {"minReplicas": 1, "replicaSpecs": {"Worker": {"replicas": 1}}})

        for resource in (PODS, SERVICES):
            await self.label_comes_back(resource, f"{name}-worker-0", "job-name")

        async def one_service() -> bool:
            return len(await cluster.all(SERVICES)) == 1 + len(await cluster.members(name))

        await cluster.until_members(name, 1)
        await cluster.until(one_service)

    async def parameter_servers(self) -> None:
        """A job of each group; all replicas are restarted after one was killed."""
        cluster = self.cluster
        for group in ("mxnet.mlkube.io", "mlkube.io"):
            await cluster.create(mxjobs.local(f"local-{group.count('.')}", group=group))
        await cluster.create(mxjobs.distributed("servers", servers=1, workers=1))
        replicas = await cluster.run_replicas("servers", 3)
        await cluster.until_phase("servers", "Running")
        await cluster.end_pod(replicas["server-0"], 137)
        await cluster.run_replicas("servers", 3)
        await cluster.until_phase("servers", "Running", restarts="1")

    async def parameter_servers_ended_and_gone(self) -> None:
        cluster = self.cluster
        for name in ("local-1", "local-2"):
            await cluster.edit(name, {"runPolicy": {"ttlSecondsAfterFinished": 1}})
            (pod,) = (await cluster.run_replicas(name, 1)).values()
            await cluster.end_pod(pod, 0)

            async def gone(name: str = name) -> bool:
                return await cluster.find(cluster.kind_of(name), name) is None

            await cluster.until(gone)
        replicas = await cluster.replicas("servers")
        for pod in replicas.values():
            await cluster.end_pod(pod, 0)
        await cluster.until_phase("servers", "Done", state="Succeeded")

    async def connected_by_ssh(self) -> None:
        """Everything that an MPICluster may have comes and goes."""
        cluster, name, on = self.cluster, "hosts", {"enabled": True}
        manifest = interactive(name, workers=1, networkPolicy=on, ssh={"gateway": on})
        manifest["spec"]["workers"]["podDisruptionBudget"] = on
        await cluster.create(manifest)
        await cluster.run_hosts(name, "worker-0")
        await cluster.run_hosts(name, "master")
        await cluster.until_phase(name, "Running")
        label = "mpicluster.traincrew.dev/name"
        await self.label_comes_back(POD_DISRUPTION_BUDGETS, f"{name}-worker-pdb", label)
        await self.label_comes_back(NETWORK_POLICIES, f"{name}-allow-internal", label)
        off = {"enabled": False}
        workers = {"podDisruptionBudget": off}
        ssh = {"gateway": off, "keyGeneration": 2}
        await cluster.edit(name, {"networkPolicy": off, "ssh": ssh, "workers": workers})

        async def plain() -> bool:
            left = [
                await cluster.find(SERVICES, f"{name}-ssh-gateway"),
                await cluster.find(POD_DISRUPTION_BUDGETS, f"{name}-worker-pdb"),
                await cluster.find(NETWORK_POLICIES, f"{name}-allow-internal"),
            ]
            return not any(left)

        await cluster.until(plain)

    async def connected_by_exec(self) -> None:
        """The Role follows the workers of an MPICluster, and a RoleBinding is mended."""
        cluster, name = self.cluster, "agents"
        await cluster.create(interactive(name, workers=1, transport="exec"))
        await cluster.run_hosts(name, "worker-0")
        await cluster.run_hosts(name, "master")
        await cluster.until_phase(name, "Running")
        await self.until_granted(name, 1)
        await cluster.edit(name, {"workers": {"replicas": 2}})
        await cluster.run_hosts(name, "worker-1")
        await self.until_granted(name, 2)
        binding = f"{name}-master"
        await cluster.client.patch(ROLE_BINDINGS, binding, "default", patch={"subjects": []})

        async def mended() -> bool:
            found = await cluster.client.get(ROLE_BINDINGS, binding, "default")
            return bool(found.get("subjects"))

        await cluster.until(mended)

    async def until_granted(self, name: str, workers: int) -> None:
        async def check() -> bool:
            role = await self.cluster.client.get(ROLES, f"{name}-master", "default")
            pods = [rule["resourceNames"] for rule in role.get("rules") or ()]
            wanted = [f"{name}-worker-{index}" for index in range(workers)]
            return pods == [wanted, wanted]

        await self.cluster.until(check)

    async def connected_by_ssh_ended_and_gone(self) -> None:
        cluster, name = self.cluster, "hosts"
        policy = {"activeDeadlineSeconds": 1, "ttlSecondsAfterFinished": 1}
        await cluster.edit(name, {"runPolicy": policy})

        async def gone() -> bool:
            return await cluster.find(cluster.kind_of(name), name) is None

        await cluster.until(gone)

    async def log_is_read(self) -> None:
        """Torchrun's epilogue is all that is kept of a program's last words."""
        cluster, name = self.cluster, "hidden-cause"
        manifest = elastic(1)
        manifest["metadata"]["name"] = name
        await cluster.create(manifest)
        (worker,) = await cluster.run_members(name, 1)
        ended = {"exitCode": 1, "reason": "Error", "message": NO_WORDS}
        container = {"name": "elasticjob-worker", "ready": False, "restartCount": 0}
        status = {**container, "image": "x", "imageID": "", "state": {"terminated": ended}}
        await cluster.set_pod(
            worker["metadata"]["name"], {"phase": "Failed", "containerStatuses": [status]}
        )
        await cluster.until_phase(name, "Failed", message="rank 1 failed with exit code 1")
        await cluster.client.delete(ELASTIC_JOBS, name, "default")

    async def elastic_ended_and_gone(self) -> None:
        cluster, name = self.cluster, "flowers"
        (worker,) = await cluster.until_members(name, 1)
        await cluster.edit(name, {"ttlSecondsAfterFinished": 1})
        await cluster.end_pod(worker, 0)
        await cluster.until_phase(name, "Succeeded")

        async def gone() -> bool:
            return await cluster.find(ELASTIC_JOBS, name) is None

        await cluster.until(gone)

    async def until_synced_again(self, name: str) -> None:
        """The same event a second time raises the count of the first."""

        async def counted() -> bool:
            return any(
                event["reason"] == "Synced" and event.get("count", 1) > 1
                for event in await self.cluster.all(EVENTS)
                if event["involvedObject"]["name"] == name
            )

        await self.cluster.until(counted)

    async def ended_and_gone(self) -> None:
        cluster, name = self.cluster, "digits-mn"
        (master,) = await cluster.until_pods("master", 1)
        await cluster.end_pod(master, 0)
        await cluster.until_phase(name, "Succeeded")
        await cluster.edit(name, {"runPolicy": {"ttlSecondsAfterFinished": 1}})

        async def gone() -> bool:
            return await cluster.find(CHAINER_JOBS, name) is None

        await cluster.until(gone)

    async def something_in_the_way(self, resource: Resource) -> None:
        """An existing object with the name of a child that is not managed by the job."""
        cluster = self.cluster
        name = f"in-the-way-of-{resource.plural}"
        child = {
            SERVICE_ACCOUNTS: f"{name}-launcher",
            ROLES: f"{name}-launcher-role",
            ROLE_BINDINGS: f"{name}-launcher-rolebinding",
            CONFIG_MAPS: f"{name}-assets",
            STATEFUL_SETS: f"{name}-workerset-w",
            JOBS: f"{name}-master",
            SERVICES: f"{name}-worker-0",
            PODS: f"{name}-worker-0",
            **{resource: f"{name}-{end}" for resource, end in OF_MPI.items()},
        }[resource]
        manifest = distributed() if resource in {CONFIG_MAPS, STATEFUL_SETS} else plain()
        if resource in {SERVICES, PODS}:
            manifest = elastic(1)
        elif resource in OF_MPI:
            manifest = interactive(workers=1, networkPolicy={"enabled": True})
            manifest["spec"]["workers"]["podDisruptionBudget"] = {"enabled": True}
        elif workers := manifest["spec"].get("workerSets"):
            manifest["spec"]["workerSets"] = {"w": workers["ws0"]}
        manifest["metadata"]["name"] = name
        await cluster.client.create(resource, self.foreign(resource, child), "default")
        await cluster.create(manifest)
        await cluster.until_phase(name, "Created", reason="ErrResourceExists", message=child)
        await cluster.client.delete(cluster.kind_of(name), name, "default")

    def foreign(self, resource: Resource, name: str) -> Document:
        pod = {
            "metadata": {"labels": {"a": "b"}},
            "spec": {
                "restartPolicy": "Always" if resource is STATEFUL_SETS else "Never",
                "containers": [{"name": "c", "image": "i"}],
            },
        }
        content: Document = {}
        if resource is STATEFUL_SETS:
            selector = {"matchLabels": {"a": "b"}}
            content = {"spec": {"replicas": 0, "selector": selector, "template": pod}}
        elif resource is JOBS:
            content = {"spec": {"suspend": True, "template": pod}}
        elif resource is JOB_SETS:
            content = {"spec": {"suspend": True}}
        elif resource is ROLE_BINDINGS:
            group = "rbac.authorization.k8s.io"
            content = {"roleRef": {"apiGroup": group, "kind": "Role", "name": "x"}}
        elif resource is ROLES:
            content = {"rules": []}
        elif resource is POD_DISRUPTION_BUDGETS:
            content = {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}
        elif resource is NETWORK_POLICIES:
            content = {"spec": {"podSelector": {}}}
        elif resource is SERVICES:
            content = {"spec": {"clusterIP": "None", "selector": {"a": "b"}}}
        elif resource is HORIZONTAL_POD_AUTOSCALERS:
            target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}
            content = {"spec": {"maxReplicas": 1, "scaleTargetRef": target}}
        elif resource is PODS:
            content = {"spec": pod["spec"]}
        metadata = {"name": name}
        return {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": metadata,
            **content,
        }


async def test_every_permission_is_needed_and_none_is_missing(cluster: Cluster) -> None:
    life = Life(cluster)
    await life.live()

    assert judge(granted(), life.needed) == Judgement(denied=[], unused=[])
    for one in granted():  # the judge is awake
        assert judge(granted() - {one}, life.needed).denied, one


async def test_an_operator_for_one_namespace_asks_for_nothing_outside(cluster: Cluster) -> None:
    life = Life(cluster)
    await life.live(namespace="default", lease_namespace="default")

    allowed = granted(watchNamespace="default")
    outside = {each.resource for each in allowed if each.namespace != "default"}
    assert outside == {"resourceflavors", "workloadpriorityclasses", "priorityclasses"}
    assert {each.verb for each in allowed if each.namespace != "default"} == {"get", "list"}
    assert judge(allowed, life.needed) == Judgement(denied=[], unused=[])


# -- kinds of other projects --------------------------------------------------------------------

HORIZONTAL_POD_AUTOSCALERS = Resource(
    "autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"
)


class ProjectLife(Struct):
    """A job that has children of every kind, and what it takes to live.

    Attributes:
        manifest: The job.
        pods: Number of its pods.
        label: Label of its pods, with its value.
        policy: The field that has `suspend` and the time to live; they are in `spec` without one.
        children: Resources of its children, each with what comes after the job's name.
        stays: Whether only children are deleted when its time to live is over.
        also: Other kinds that are served, because a job is made of theirs.
        objects: What other jobs refer to.
        others: Jobs that are created beside.
        is_late: Whether it ends by its deadline, which is short.
    """

    manifest: Document
    pods: int
    label: str
    children: dict[Resource, str]
    policy: str = "runPolicy"
    stays: bool = False
    also: tuple[str, ...] = ()
    objects: tuple[tuple[Resource, Document], ...] = ()
    others: tuple[Document, ...] = ()
    is_late: bool = False

    def with_policy(self, **fields: Any) -> Document:
        """A patch of the fields beside `suspend`."""
        return {"spec": {self.policy: fields} if self.policy else fields}


TRAINING_RUNTIMES = Resource(
    "trainer.kubeflow.org", "v1alpha1", "trainingruntimes", "TrainingRuntime"
)


def not_served(name: str) -> Document:
    """A runtime whose jobs fail: it asks for something that is not served here."""
    runtime = trainjobs.runtime("torch-distributed")
    gang: Document = {"podGroupPolicy": {"coscheduling": {}}}
    return {
        "apiVersion": runtime["apiVersion"],
        "kind": TRAINING_RUNTIMES.kind,
        "metadata": {"name": name},
        "spec": runtime["spec"] | gang,
    }


LIVES = {
    "PyTorchJob": ProjectLife(
        manifest=pytorchjobs.group(2),
        pods=2,
        label="training.kubeflow.org/job-name=digits",
        children={PODS: "-worker-0", SERVICES: "-worker-0", HORIZONTAL_POD_AUTOSCALERS: ""},
    ),
    "MXJob": ProjectLife(
        manifest=mxnetjobs.mxnet(),
        pods=4,
        label="training.kubeflow.org/job-name=digits",
        children={PODS: "-worker-0", SERVICES: "-worker-0"},
    ),
    "MPIJob": ProjectLife(
        manifest=mpijobs.pi(),
        pods=3,
        label="training.kubeflow.org/job-name=pi",
        children={PODS: "-worker-0", SERVICES: "", CONFIG_MAPS: "-config", JOBS: "-launcher"},
        stays=True,
    ),
    "JobSet": ProjectLife(
        manifest=jobsets.example("claims"),
        pods=3,
        label="jobset.sigs.k8s.io/jobset-name=digits",
        children={JOBS: "-driver-0", SERVICES: ""},
        policy="",
    ),
    "TrainJob": ProjectLife(
        manifest=trainjobs.trained("deepspeed-distributed", activeDeadlineSeconds=15),
        pods=2,
        label="jobset.sigs.k8s.io/jobset-name=digits",
        children={JOB_SETS: "", CONFIG_MAPS: "-mpi-hostfile"},
        policy="",
        stays=True,
        also=("JobSet",),
        # The runtime is protected, and the job that refers to it has no pods.
        objects=((TRAINING_RUNTIMES, not_served("ganged")),),
        others=(
            {
                **trainjobs.trained("ganged", kind="TrainingRuntime"),
                "metadata": {"name": "beside"},
            },
        ),
        is_late=True,
    ),
}


async def lived(life: Life, one: ProjectLife) -> None:
    """The life of a job: it runs, is suspended and resumed, loses labels, ends, and is removed."""
    cluster, name = life.cluster, one.manifest["metadata"]["name"]
    await cluster.create(one.manifest)
    resource = cluster.kind_of(name)

    async def pods() -> list[Document]:
        listed = await cluster.client.list(PODS, "default", label_selector=one.label)
        items: list[Document] = listed["items"]
        return items

    async def run() -> list[Document]:
        async def there() -> list[Document] | None:
            found = await pods()
            return found if len(found) == one.pods else None

        found: list[Document] = await cluster.until(there)
        for pod in found:
            await cluster.run_pod(pod)
        return found

    async def without_pods() -> bool:
        return not await pods()

    async def gone() -> bool:
        if one.stays:
            return not await cluster.all(JOBS)
        return await cluster.find(resource, name) is None

    for kind, document in one.objects:
        await cluster.client.create(kind, document, "default")
    for other in one.others:
        await cluster.create(other)
    await run()
    await life.note_grants()
    for child, end in one.children.items():
        await life.label_comes_back(child, f"{name}{end}", one.label.partition("=")[0])
    suspended = one.with_policy(suspend=True)
    await cluster.client.patch(resource, name, "default", patch=suspended)
    await cluster.until(without_pods)
    await cluster.client.patch(resource, name, "default", patch=one.with_policy(suspend=False))
    members = await run()
    if not one.is_late:
        expiring = one.with_policy(ttlSecondsAfterFinished=1)
        await cluster.client.patch(resource, name, "default", patch=expiring)
        for pod in members:
            await cluster.end_pod(pod, 0)
    await cluster.until(gone)
    for child, end in one.children.items():
        await is_in_the_way(life, one, child, end)


async def is_in_the_way(life: Life, one: ProjectLife, child: Resource, end: str) -> None:
    """An object of somebody else has the name of a child."""
    cluster, blocked = life.cluster, copy.deepcopy(one.manifest)
    blocked["metadata"]["name"] = name = f"behind-{child.plural}"[:20]
    await cluster.client.create(child, life.foreign(child, f"{name}{end}"), "default")
    await cluster.create(blocked)

    async def told() -> bool:
        return any(each[1] == "ErrResourceExists" for each in await cluster.events_of(name))

    await cluster.until(told)
    await cluster.client.delete(cluster.kind_of(name), name, "default")


async def drops_most_of_the_status(cluster: Cluster, kind: str) -> None:
    """Make a definition like that of the kind's own project."""
    (resource,) = (each for each in RESOURCES if each.kind == kind)
    name = f"{resource.plural}.{resource.group}"
    found = await cluster.client.get(CUSTOM_RESOURCE_DEFINITIONS, name)
    for version in found["spec"]["versions"]:
        status = version["schema"]["openAPIV3Schema"]["properties"]["status"]
        del status["x-kubernetes-preserve-unknown-fields"]
        status["properties"].pop("podRecords", None)
        status["properties"].pop("phase", None)
    await cluster.client.replace(CUSTOM_RESOURCE_DEFINITIONS, found)


@pytest.mark.parametrize("kind", OF_OTHERS)
async def test_a_kind_of_another_project_adds_what_it_needs(cluster: Cluster, kind: str) -> None:
    life = Life(cluster)
    await drops_most_of_the_status(cluster, kind)
    cluster.server.faults = life.hear
    for streams in (True, False):
        life.streams_lists = streams
        served = (kind, *LIVES[kind].also)
        await cluster.start_operator(kinds=served)
        if streams:
            await lived(life, LIVES[kind])
        await cluster.stop_operator()

    assert judge(granted(kinds=dict.fromkeys(served, True)), life.needed).denied == []
    judgement = judge(granted(kinds={kind: True}), life.needed)
    assert set(judgement.unused) - granted() == set()


# -- the judge ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "target", "permission"),
    [
        ("GET", "/api/v1/pods", Permission("", "pods", "list")),
        ("GET", "/api/v1/pods?watch=1&labelSelector=a", Permission("", "pods", "watch")),
        ("GET", "/api/v1/namespaces/n/pods/p", Permission("", "pods", "get", "n", "p")),
        (
            "GET",
            "/api/v1/namespaces/n/pods?watch=true&fieldSelector=metadata.name%3Dp",
            Permission("", "pods", "watch", "n", "p"),
        ),
        ("GET", "/api/v1/namespaces/n", Permission("", "namespaces", "get", None, "n")),
        (
            "GET",
            "/api/v1/namespaces/n/pods/p/exec?command=ls",
            Permission("", "pods/exec", "get", "n", "p"),
        ),
        ("POST", "/apis/batch/v1/namespaces/n/jobs", Permission("batch", "jobs", "create", "n")),
        (
            "PATCH",
            "/apis/kubeflow.org/v1alpha1/namespaces/n/chainerjobs/j/status",
            Permission("kubeflow.org", "chainerjobs/status", "patch", "n", "j"),
        ),
        (
            "PUT",
            "/apis/apps/v1/namespaces/n/statefulsets/s",
            Permission("apps", "statefulsets", "update", "n", "s"),
        ),
        (
            "DELETE",
            "/api/v1/namespaces/n/pods",
            Permission("", "pods", "deletecollection", "n"),
        ),
        ("GET", "/version", None),
        ("GET", "/apis/batch/v1", None),
    ],
)
def test_what_requests_ask_for(method: str, target: str, permission: Permission | None) -> None:
    assert of_http(method, target) == permission


def test_names_and_namespaces_bound_a_permission() -> None:
    rule = {
        "apiGroups": [""],
        "resources": ["pods"],
        "resourceNames": ["p", "q"],
        "verbs": ["get"],
    }
    permissions = of_rules([rule], "n")
    mine = Permission("", "pods", "get", "n", "p")

    assert judge(permissions, [mine]).denied == []
    assert judge(permissions, [mine]).unused == [mine._replace(name="q")]
    assert judge(permissions, [mine._replace(name="r")]).denied
    assert judge(permissions, [mine._replace(namespace="m")]).denied
    assert judge(permissions, [mine._replace(verb="list", name=None)]).denied
