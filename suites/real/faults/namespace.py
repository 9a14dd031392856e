"""A user's actions on the jobs of one namespace, and everything that was observed of them.

The observer watches the API server directly, not through a proxy, and across its restarts.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import secrets
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Self, TypeVar

from hack.cluster.processes import NotReady

from harness import CHAINER_JOBS
from traincrew.api.crd import definition
from traincrew.api.kinds import INSTALLED
from traincrew.engine.client import Client
from traincrew.engine.config import load_config
from traincrew.engine.controller import Manager
from traincrew.engine.errors import (
    AlreadyExistsError,
    NotFoundError,
    ServerError,
    UnreachableError,
)
from traincrew.engine.objects import AnyObject
from traincrew.engine.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    JOBS,
    NAMESPACES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    STATEFUL_SETS,
)

from .jobs import END_FILE, GONE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from hack.cluster import RealCluster

T = TypeVar("T")

LABEL = "chainerjob.kubeflow.org/name"
CHILDREN = (SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, CONFIG_MAPS, STATEFUL_SETS, JOBS)
TERMINAL = {"Succeeded", "Failed"}


class FaultNamespace:
    """A namespace created for a test and deleted after it; an async context manager.

    Args:
        cluster: The cluster.
        name: Prefix of its name; the rest is unique, since the audit log contains all tests.

    Attributes:
        client: An administrator's client.
        histories: Every observed status of every job, by UID.
    """

    def __init__(self, cluster: RealCluster, name: str) -> None:
        self._cluster = cluster
        self.namespace = f"{name}-{secrets.token_hex(3)}"
        self.client = Client(load_config(str(cluster.kubeconfig)), user_agent="faults-suite")
        self.histories: dict[str, list[dict[str, Any]]] = {}
        self.jobs: dict[str, AnyObject] = {}

    async def __aenter__(self) -> Self:
        try:
            await self._open()
        except BaseException:
            await self.client.close()
            raise
        return self

    async def _open(self) -> None:
        for kind in INSTALLED:
            with contextlib.suppress(AlreadyExistsError):
                await self.client.create(CUSTOM_RESOURCE_DEFINITIONS, definition(kind))
        await self.client.create(NAMESPACES, {"metadata": {"name": self.namespace}})
        manager = Manager(self.client)
        informer = manager.informer(CHAINER_JOBS, AnyObject, namespace=self.namespace)
        informer.add_handler(self._saw)
        self._witness = asyncio.create_task(manager.run())
        await manager.wait_synced()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._witness.cancel()
        await asyncio.gather(self._witness, return_exceptions=True)
        await insist(lambda: self.client.delete(NAMESPACES, self.namespace))
        deadline = time.monotonic() + 180
        while await self._exists():
            assert time.monotonic() < deadline, f"namespace {self.namespace} does not go away"
            await asyncio.sleep(0.2)
        await self.client.close()

    async def _exists(self) -> bool:
        try:
            await insist(lambda: self.client.get(NAMESPACES, self.namespace))
        except NotFoundError:
            return False
        return True

    def _saw(self, old: AnyObject | None, new: AnyObject | None) -> None:
        if new is not None:
            self.jobs[new.metadata.name] = new
            self.histories.setdefault(new.metadata.uid, []).append(new.status)
        elif old is not None:
            self.jobs.pop(old.metadata.name, None)

    # -- what users do ------------------------------------------------------------------------

    async def create(self, manifest: dict[str, Any]) -> None:
        """Create a job."""

        async def once() -> None:
            try:
                await self.client.create(CHAINER_JOBS, manifest, self.namespace)
            except AlreadyExistsError:
                return  # the response to an earlier attempt was lost

        await insist(once)

    async def edit(self, name: str, spec: dict[str, Any]) -> None:
        """Change a job's spec, as `kubectl patch --type merge` does."""
        patch = {"spec": spec}
        await insist(lambda: self.client.patch(CHAINER_JOBS, name, self.namespace, patch=patch))

    async def delete(self, name: str) -> None:
        """Delete a job."""

        async def once() -> None:
            try:
                await self.client.delete(CHAINER_JOBS, name, self.namespace)
            except NotFoundError:
                return

        await insist(once)

    async def let_master_end(self, name: str) -> None:
        """End the master's process, in whichever pod it runs, until the job has finished."""
        while self.phase(name) not in TERMINAL:
            for pod in await self.pods_of(name):
                if "-master-" in pod["metadata"]["name"] and pod["status"]["phase"] == "Running":
                    await asyncio.to_thread(self._touch_end, pod["metadata"]["name"])
            await asyncio.sleep(1)

    def _touch_end(self, pod: str) -> None:
        try:
            self._cluster.kubectl("exec", "-n", self.namespace, pod, "--", "touch", END_FILE)
        except NotReady:
            return  # the pod, its node or the API server is not available at the moment

    # -- observations ------------------------------------------------------------------------

    async def round_trip(self) -> float:
        """Return the current duration of a request in seconds: the longest of three."""
        took = []
        for _ in range(3):
            began = time.monotonic()
            await self.client.get(NAMESPACES, self.namespace)
            took.append(time.monotonic() - began)
        return max(took)

    def phase(self, name: str) -> str:
        """Return the phase of a job; `GONE` if there is none."""
        job = self.jobs.get(name)
        return GONE if job is None else job.status.get("phase", "")

    async def until(
        self,
        name: str,
        condition: Callable[[dict[str, Any]], object],
        wanted: str,
        seconds: float = 400,
    ) -> float:
        """Wait until a job's status is as wanted; return when, by ``time.monotonic()``."""
        deadline = time.monotonic() + seconds
        while (job := self.jobs.get(name)) is None or not condition(job.status):
            status = {} if job is None else job.status
            seen = {key: status.get(key) for key in ("phase", "reason", "message", "workersReady")}
            assert time.monotonic() < deadline, f"{name}: no {wanted} in {seconds:g} s: {seen}"
            await asyncio.sleep(0.02)
        return time.monotonic()

    async def until_phase(
        self, name: str, phase: str, reason: str = "", seconds: float = 400
    ) -> float:
        """Wait for a phase, and a reason if one is given."""
        return await self.until(
            name,
            lambda status: (
                status.get("phase") == phase and (not reason or status.get("reason") == reason)
            ),
            f"{phase} {reason}",
            seconds,
        )

    async def until_workers(self, name: str, size: int) -> None:
        """Wait until this many workers are wanted and ready."""
        text = f"{size}/{size}"
        await self.until(name, lambda status: status.get("workersReady") == text, text)

    async def until_gone(self, name: str, seconds: float = 120) -> None:
        """Wait until a job and all its children are gone."""
        deadline = time.monotonic() + seconds
        left: list[str] = []
        while name in self.jobs or (left := await self.made_for(name)):
            assert time.monotonic() < deadline, f"{name}: not gone in {seconds:g} s: {left}"
            await asyncio.sleep(0.2)

    async def pods_of(self, name: str) -> list[dict[str, Any]]:
        """Return the pods of a job, including terminating ones."""
        return await self._items(PODS, name)

    async def made_for(self, name: str) -> list[str]:
        """Return the objects of a job: its children and their pods."""
        return [
            f"{resource.plural} {item['metadata']['name']}"
            for resource in (*CHILDREN, PODS)
            for item in await self._items(resource, name)
        ]

    async def nodes_of(self, name: str) -> set[str]:
        """Return the nodes of a job's pods."""
        return {pod["spec"].get("nodeName", "") for pod in await self.pods_of(name)}

    async def until_given_up(self, name: str, seconds: float = 180) -> None:
        """Wait until a pod of the job is being deleted."""
        deadline = time.monotonic() + seconds
        while not any("deletionTimestamp" in pod["metadata"] for pod in await self.pods_of(name)):
            assert time.monotonic() < deadline, f"{name}: no pod is given up in {seconds:g} s"
            await asyncio.sleep(0.2)

    async def finished_pod(self, name: str) -> None:
        """Wait until a pod of the job has finished, whether or not the job's status shows it."""
        while not any(pod["status"]["phase"] in TERMINAL for pod in await self.pods_of(name)):
            await asyncio.sleep(0.2)

    async def active_pods(self, name: str) -> list[str]:
        """Return what still uses resources; finished pods do not."""
        return [
            f"{pod['metadata']['name']} {pod['status']['phase']}"
            for pod in await self.pods_of(name)
            if pod["status"]["phase"] not in TERMINAL
        ]

    async def uids(self, name: str) -> set[str]:
        """Return the selector of a job's children and their pods."""
        return {
            item["metadata"]["uid"]
            for resource in (*CHILDREN, PODS)
            for item in await self._items(resource, name)
        }

    async def _items(self, resource: Any, name: str) -> list[dict[str, Any]]:
        listed = await insist(
            lambda: self.client.list(resource, self.namespace, label_selector=f"{LABEL}={name}")
        )
        items: list[dict[str, Any]] = listed["items"]
        return items

    async def events_of(self, name: str) -> Counter[str]:
        """Return how often each reason was reported in events of a job."""
        listed = await insist(
            lambda: self.client.list(
                EVENTS, self.namespace, field_selector=f"involvedObject.name={name}"
            )
        )
        counted: Counter[str] = Counter()
        for event in listed["items"]:
            if event["involvedObject"]["kind"] == "ChainerJob":
                counted[event["reason"]] += event.get("count", 1)
        return counted

    # -- after the end ------------------------------------------------------------------------

    async def at_rest(self, name: str) -> None:
        """Wait until only the finished pods of the master are left."""
        deadline = time.monotonic() + 180
        while left := [
            pod["metadata"]["name"]
            for pod in await self.pods_of(name)
            if pod["status"]["phase"] not in TERMINAL or "-master-" not in pod["metadata"]["name"]
        ]:
            assert time.monotonic() < deadline, f"{name} has ended, but not its pods: {left}"
            await asyncio.sleep(0.2)

    def reverted(self, name: str) -> list[str]:
        """What was final and changed all the same, and counters that went back."""
        wrong = []
        history = self.histories[self.jobs[name].metadata.uid]
        for before, after in itertools.pairwise(history):
            if before.get("phase") in TERMINAL and after.get("phase") != before["phase"]:
                wrong.append(f"{name}: {before['phase']} became {after.get('phase')}")
            if (at := before.get("completionTime")) and after.get("completionTime") != at:
                wrong.append(f"{name}: completionTime changed")
            if after.get("restarts", 0) < before.get("restarts", 0):
                wrong.append(f"{name}: restarts went back")
        return wrong

    def created_twice(self, children: set[str]) -> list[str]:
        """Children that some operator made twice, by the audit log of the API server.

        A request whose sender was killed is logged as cancelled, whether or not it took effect.
        """
        made: Counter[str] = Counter()
        cancelled: set[str] = set()
        with self._cluster.audit_log.open(encoding="utf-8") as log:
            for line in log:
                if self.namespace not in line or '"verb":"create"' not in line:
                    continue
                entry = json.loads(line)
                if "dryRun=" in entry["requestURI"]:
                    continue  # a question whether a later child would be refused
                reference = entry.get("objectRef", {})
                if reference.get("namespace") == self.namespace and entry["userAgent"].startswith(
                    "traincrew-operator"
                ):
                    what = f"{reference['resource']} {reference.get('name')}"
                    made[what] += entry["responseStatus"]["code"] == 201
                    if entry["responseStatus"]["code"] == 504:
                        cancelled.add(what)
        return [
            f"{what} was made {made[what]} times"
            for what in children
            if made[what] > 1 or (made[what] == 0 and what not in cancelled)
        ]


async def insist(attempt: Callable[[], Awaitable[T]], seconds: float = 90) -> T:
    """Retry as long as the API server is not available."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return await attempt()
        except (UnreachableError, ServerError):
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)
