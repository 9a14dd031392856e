"""A cluster for tests of the operator: the embedded API server and controllers, and fake nodes.

No pod runs: tests write the status of pods. The kubelet here only does what must happen by itself,
which is to remove pods that are being deleted.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
from typing import TYPE_CHECKING, Any, Self

import yaml

from inprocess import config_of
from traincrew.api import fullstatus
from traincrew.api.crd import definitions
from traincrew.api.kinds import KINDS
from traincrew.engine.client import Client
from traincrew.engine.config import from_kubeconfig
from traincrew.engine.controller import Manager
from traincrew.engine.errors import ConflictError, NotFoundError
from traincrew.engine.events import EventRecorder
from traincrew.engine.resources import (
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    JOBS,
    NAMESPACES,
    PODS,
    SERVICE_ACCOUNTS,
    STATEFUL_SETS,
    Resource,
)
from traincrew.local.apiserver.http.server import ApiServer
from traincrew.local.apiserver.storage import Storage
from traincrew.local.controllers import add_controllers
from traincrew.operator.app import run_operator
from traincrew.operator.kinds import RESOURCES
from traincrew.operator.options import OperatorOptions
from waiting import until_written

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from traincrew.engine.config import ClientConfig

CHAINER_JOBS, ELASTIC_JOBS, MPI_CLUSTERS, MX_JOBS, OLDER_MX_JOBS = (
    next(resource for resource in RESOURCES if f"{resource.plural}.{resource.group}" == name)
    for name in (
        "chainerjobs.kubeflow.org",
        "elasticjobs.elastic.pytorch.org",
        "mpiclusters.traincrew.dev",
        "mxjobs.mxnet.mlkube.io",
        "mxjobs.mlkube.io",
    )
)
_RUNTIMES = Resource(
    "trainer.kubeflow.org",
    "v1alpha1",
    "clustertrainingruntimes",
    "ClusterTrainingRuntime",
    namespaced=False,
)
DEADLINE = 60.0
_SAID_BY = {"Succeeded": {"Succeeded", "Complete", "Completed"}}
"""The conditions that say that a job is in a phase, if not the one of its name."""
OPERATOR_AGENT = "traincrew-operator"
_STORED: list[tuple[str, dict[str, Any]]] = []
"""What the first cluster of this process had stored before its test began, each with the resource:
the definitions of our kinds, what jobs refer to, and what the controllers make for every cluster.

All others begin with it, as after a restart: to make it again takes longer than most tests. They
share the documents, which are large: nobody changes what is stored.
"""


class Cluster:
    """API server and controllers; operators are started and stopped by tests.

    Args:
        kinds: What operators serve beside the kinds that all of them serve.
        controllers: Whether the controllers run. Without them a cluster starts in a third of the
            time; it is enough to look at objects.
    """

    client: Client
    server: ApiServer
    storage: Storage

    def __init__(self, kinds: tuple[str, ...] = (), *, controllers: bool = True) -> None:
        self._of_others = kinds
        self._has_controllers = controllers
        self._stack = contextlib.AsyncExitStack()
        self._tasks: set[asyncio.Task[None]] = set()
        self._operator: asyncio.Task[None] | None = None
        self._kinds: dict[str, Resource] = {}
        self._stop = asyncio.Event()

    async def __aenter__(self) -> Self:
        storage = self.storage = Storage(None)
        self._stack.callback(storage.close)
        for resource, document in _STORED:
            metadata = document["metadata"].copy()  # the storage sets its resourceVersion
            key = (metadata.get("namespace", ""), metadata["name"])
            storage.put(resource, key, document | {"metadata": metadata})
        self.server = ApiServer(storage, secret="for-tests-only-0123456789")
        await self.server.start()
        self._stack.push_async_callback(self.server.stop)
        self.client = await self._stack.enter_async_context(
            Client(config_of(self.server), user_agent="test")
        )
        if not _STORED:
            for kind in KINDS:
                for document in definitions(kind):
                    await self.client.create(CUSTOM_RESOURCE_DEFINITIONS, document)
                for document in kind.objects:
                    await self.client.create(_RUNTIMES, document)
        if self._has_controllers or not _STORED:
            await self._start_controllers()
        self._start(self._kubelet())
        if not _STORED:
            await self.until(self._has_settled)
            _STORED.extend(
                (each, found.copy()) for each in storage.resources() for found in storage.scan(each)
            )
        return self

    async def _start_controllers(self) -> None:
        client = await self._stack.enter_async_context(
            Client(config_of(self.server), user_agent="controllers")
        )
        events = EventRecorder(client, "controllers")
        manager = Manager(client)
        add_controllers(manager, events)
        self._start(manager.run())
        self._start(events.run())
        await manager.wait_synced()

    async def _has_settled(self) -> bool:
        """Return true once the controllers have made what each cluster has without any workload."""
        for namespace in (await self.client.list(NAMESPACES))["items"]:
            name = namespace["metadata"]["name"]
            for resource in (SERVICE_ACCOUNTS, CONFIG_MAPS):
                assert (await self.client.list(resource, name))["items"]
        wide: list[dict[str, Any]] = []
        for name in ("admin", "edit", "view"):  # each is aggregated from those that follow
            rules = (await self.client.get(CLUSTER_ROLES, name))["rules"]
            assert rules
            assert not wide or all(rule in wide for rule in rules)
            wide = rules
        return True

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.kill_operator()
        for task in self._tasks:
            task.cancel()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()
        for result in results:
            if isinstance(result, Exception):
                raise result

    def _start(self, work: Any) -> None:
        self._tasks.add(asyncio.create_task(work))

    @property
    def config(self) -> ClientConfig:
        """Return the configuration of a client."""
        return from_kubeconfig(self.server.kubeconfig())

    # -- operators ----------------------------------------------------------------------------

    async def start_operator(self, **options: Any) -> None:
        """Start an operator, and wait until its caches are synced."""
        assert self._operator is None
        self._stop = asyncio.Event()
        ready = asyncio.Event()
        chosen = OperatorOptions(
            **{
                "leader_elect": False,
                "helper_image": "traincrew/helper:test",
                "kinds": self._of_others,
                **options,
            }
        )
        self._operator = asyncio.create_task(
            run_operator(config_of(self.server), chosen, self._stop, on_ready=ready.set)
        )
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait({waiting, self._operator}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self._operator.done():
            await self._operator

    @property
    def operator_has_ended(self) -> bool:
        """Whether the operator has ended by itself."""
        return self._operator is None or self._operator.done()

    async def stop_operator(self) -> None:
        """Stop the operator gracefully, and wait for its end."""
        assert self._operator is not None
        self._stop.set()
        await self._operator
        self._operator = None

    async def kill_operator(self) -> None:
        """Kill the operator."""
        if self._operator is None:
            return
        self._operator.cancel()
        await asyncio.gather(self._operator, return_exceptions=True)
        self._operator = None

    # -- objects ------------------------------------------------------------------------------

    async def create(self, manifest: dict[str, Any] | str) -> dict[str, Any]:
        """Create a job in the default namespace."""
        document = yaml.safe_load(manifest) if isinstance(manifest, str) else manifest
        kind = self._noted(document)
        return await self.client.create(kind, copy.deepcopy(document), "default")

    async def create_strictly(self, manifest: dict[str, Any]) -> None:
        """Create a job as kubectl does: unknown fields are an error."""
        await self.client.request(
            "POST",
            self._noted(manifest).path("default"),
            params={"fieldValidation": "Strict"},
            body=json.dumps(manifest).encode(),
            content_type="application/json",
        )

    def _noted(self, manifest: dict[str, Any]) -> Resource:
        """Return the kind of a job, and keep it under the job's name."""
        wanted = manifest["apiVersion"], manifest["kind"]
        (kind,) = [kind for kind in RESOURCES if (kind.api_version, kind.kind) == wanted]
        if name := manifest["metadata"].get("name"):
            self._kinds[name] = kind
        return kind

    def kind_of(self, name: str) -> Resource:
        """Return the kind of a job that was created here."""
        return self._kinds.get(name, CHAINER_JOBS)

    async def job(self, name: str) -> dict[str, Any]:
        """Return a job; its status has what the definition does not store of it, too."""
        job = await self.client.get(self.kind_of(name), name, "default")
        metadata = job["metadata"]
        text = metadata.get("annotations", {}).get(fullstatus.ANNOTATION)
        if more := fullstatus.restored(text, metadata["uid"]):
            job["status"] = {**job.get("status", {}), **more}
        return job

    async def edit(self, name: str, spec: dict[str, Any]) -> None:
        """Change a job's spec by a merge patch."""
        await self.client.patch(self.kind_of(name), name, "default", patch={"spec": spec})

    async def find(self, resource: Resource, name: str) -> dict[str, Any] | None:
        """Return an object, if it exists."""
        try:
            return await self.client.get(resource, name, "default")
        except NotFoundError:
            return None

    async def all(self, resource: Resource) -> list[dict[str, Any]]:
        """Return every object of a kind in the default namespace."""
        items: list[dict[str, Any]] = (await self.client.list(resource, "default"))["items"]
        return items

    async def events_of(self, name: str) -> list[tuple[str, str, str]]:
        """Return type, reason and message of a job's events, in order of first occurrence."""
        return [
            (event["type"], event["reason"], event["message"])
            for event in await self.all(EVENTS)
            if event["involvedObject"]["name"] == name
        ]

    # -- waiting ------------------------------------------------------------------------------

    async def until(
        self, check: Callable[[], Awaitable[Any]], *, deadline: float = DEADLINE
    ) -> Any:
        """Wait until a check returns something true; an AssertionError in it means not yet."""
        end = asyncio.get_running_loop().time() + deadline
        while True:
            last: BaseException | None = None
            try:
                if result := await check():
                    return result
            except AssertionError as error:
                last = error
            if asyncio.get_running_loop().time() > end:
                raise AssertionError(f"not in {deadline} s: {check.__qualname__}") from last
            await until_written(self.storage, at_most=0.1)

    async def until_phase(self, name: str, phase: str, **wanted: str) -> dict[str, Any]:
        """Wait until a job is in a phase, and its status contains the given texts."""
        seen: dict[str, Any] = {}

        async def check() -> bool:
            seen.clear()
            seen.update(await self.job(name))
            status = seen.get("status", {})
            if fullstatus.ANNOTATION in seen["metadata"].get("annotations", {}):
                # The phase is stored there, and the conditions by the next write.
                said = status.get("conditions", ())
                holds = {each["type"] for each in said if each["status"] == "True"}
                assert holds & _SAID_BY.get(phase, {phase})
            return status.get("phase") == phase and all(
                text in str(status.get(field, "")) for field, text in wanted.items()
            )

        try:
            await self.until(check)
        except AssertionError as error:
            raise AssertionError(f"{name} is not {phase} {wanted}: {seen.get('status')}") from error
        return seen

    # -- pods ---------------------------------------------------------------------------------

    async def pods(self, role: str) -> list[dict[str, Any]]:
        """Return the pods of a role, by name."""
        selector = f"chainerjob.kubeflow.org/role={role}"
        items = (await self.client.list(PODS, "default", label_selector=selector))["items"]
        return sorted(items, key=lambda pod: str(pod["metadata"]["name"]))

    async def members(self, job: str) -> list[dict[str, Any]]:
        """Return the pods of an ElasticJob, by name."""
        selector = f"group-name=elastic.pytorch.org,job-name={job}"
        items = (await self.client.list(PODS, "default", label_selector=selector))["items"]
        return sorted(items, key=lambda pod: str(pod["metadata"]["name"]))

    async def until_members(self, job: str, count: int) -> list[dict[str, Any]]:
        """Wait until an ElasticJob has this many pods that are not being deleted."""

        async def check() -> Any:
            there = [pod for pod in await self.members(job) if _stays(pod)]
            return (there or True) if len(there) == count else None

        found = await self.until(check)
        return found if isinstance(found, list) else []

    async def run_members(self, job: str, count: int) -> list[dict[str, Any]]:
        """Wait for the pods of an ElasticJob, and set those to running that are not yet."""
        pods = await self.until_members(job, count)
        for pod in pods:
            if pod.get("status", {}).get("phase") == "Pending":
                await self.run_pod(pod)
        return pods

    async def replicas(self, job: str, *phases: str) -> dict[str, dict[str, Any]]:
        """Return the newest pods of an MxJob, by type and index (``worker-0``).

        Args:
            job: Name of the job.
            phases: Only pods in these phases; none means all.
        """
        selector = f"mxnet.mlkube.io/job-name={job}"
        items = (await self.client.list(PODS, "default", label_selector=selector))["items"]
        found: dict[str, dict[str, Any]] = {}
        for pod in sorted(items, key=lambda pod: int(pod["metadata"]["resourceVersion"])):
            labels = pod["metadata"]["labels"]
            if _stays(pod) and (not phases or pod["status"]["phase"] in phases):
                found[f"{labels['job_type'].lower()}-{labels['task_index']}"] = pod
        return found

    async def run_replicas(self, job: str, count: int) -> dict[str, dict[str, Any]]:
        """Wait for this many pending pods of an MxJob, and set them to running."""

        async def check() -> Any:
            pending = await self.replicas(job, "Pending")
            return pending if len(pending) == count else None

        found: dict[str, dict[str, Any]] = await self.until(check)
        for pod in found.values():
            await self.run_pod(pod)
        return found

    async def hosts(self, cluster: str, *phases: str) -> dict[str, dict[str, Any]]:
        """Return the pods of an MPICluster, by the rest of their name (``worker-0``).

        Args:
            cluster: Name of the cluster.
            phases: Only pods in these phases; none means all.
        """
        selector = f"mpicluster.traincrew.dev/name={cluster}"
        items = (await self.client.list(PODS, "default", label_selector=selector))["items"]
        return {
            pod["metadata"]["name"].removeprefix(f"{cluster}-"): pod
            for pod in items
            if _stays(pod) and (not phases or pod["status"]["phase"] in phases)
        }

    async def run_hosts(self, cluster: str, *hosts: str) -> dict[str, dict[str, Any]]:
        """Wait for pending pods of an MPICluster, exactly these, and set them to running."""

        async def check() -> Any:
            pending = await self.hosts(cluster, "Pending")
            return pending if set(pending) == set(hosts) else None

        found: dict[str, dict[str, Any]] = await self.until(check)
        for pod in found.values():
            await self.run_pod(pod)
        return found

    async def until_pods(self, role: str, count: int) -> list[dict[str, Any]]:
        """Wait until a role has this many unfinished pods."""

        async def check() -> Any:
            active = [
                pod
                for pod in await self.pods(role)
                if pod.get("status", {}).get("phase") not in {"Succeeded", "Failed"}
                and "deletionTimestamp" not in pod["metadata"]
            ]
            return (active or True) if len(active) == count else None

        found = await self.until(check)
        return found if isinstance(found, list) else []

    async def set_pod(self, name: str, status: dict[str, Any]) -> None:
        """Write a pod's status."""
        await self.client.patch(
            PODS, name, "default", patch={"status": status}, subresource="status"
        )

    async def run_pod(self, pod: dict[str, Any], *, restarts: int = 0) -> None:
        """Set a pod to running and ready."""
        await self.set_pod(
            pod["metadata"]["name"],
            {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [
                    {
                        "name": pod["spec"]["containers"][0]["name"],
                        "ready": True,
                        "restartCount": restarts,
                        "image": "x",
                        "imageID": "",
                        "state": {"running": {}},
                    }
                ],
            },
        )

    async def end_pod(self, pod: dict[str, Any], code: int, *, restarts: int = 0) -> None:
        """Terminate a pod with an exit code."""
        ended = {"exitCode": code, "reason": "Completed" if code == 0 else "Error"}
        await self.set_pod(
            pod["metadata"]["name"],
            {
                "phase": "Succeeded" if code == 0 else "Failed",
                "conditions": [{"type": "Ready", "status": "False"}],
                "containerStatuses": [
                    {
                        "name": pod["spec"]["containers"][0]["name"],
                        "ready": False,
                        "restartCount": restarts,
                        "image": "x",
                        "imageID": "",
                        "state": {"terminated": ended},
                    }
                ],
            },
        )

    async def run_workers(self, count: int) -> None:
        """Wait for the workers, and set them to running."""
        for pod in await self.until_pods("workerset", count):
            await self.run_pod(pod)

    async def run_master_of(self, name: str) -> dict[str, Any]:
        """Wait for a pod of the master of a job, and set it to running."""

        async def check() -> Any:
            return [
                pod
                for pod in await self.pods("master")
                if pod["metadata"]["labels"]["chainerjob.kubeflow.org/name"] == name
                and pod.get("status", {}).get("phase") == "Pending"
            ]

        (pod,) = await self.until(check)
        await self.run_pod(pod)
        found: dict[str, Any] = pod
        return found

    async def run_master(self) -> dict[str, Any]:
        """Wait for a pod of the master, and set it to running."""
        (pod,) = await self.until_pods("master", 1)
        await self.run_pod(pod)
        return pod

    async def _kubelet(self) -> None:
        """Remove pods that are being deleted."""
        while True:
            for pod in await self.all(PODS):
                if "deletionTimestamp" in pod["metadata"]:
                    # Another pod may have its name by now.
                    with contextlib.suppress(NotFoundError, ConflictError):
                        await self.client.delete(
                            PODS,
                            pod["metadata"]["name"],
                            "default",
                            grace_period=0,
                            uid=pod["metadata"]["uid"],
                        )
            await until_written(self.storage, at_most=1, interval=0.02)


def _stays(pod: dict[str, Any]) -> bool:
    return "deletionTimestamp" not in pod["metadata"]


__all__ = [
    "CHAINER_JOBS",
    "ELASTIC_JOBS",
    "EVENTS",
    "JOBS",
    "MPI_CLUSTERS",
    "MX_JOBS",
    "OLDER_MX_JOBS",
    "OPERATOR_AGENT",
    "PODS",
    "STATEFUL_SETS",
    "Cluster",
]
