"""One pod on the node, from its binding to its removal."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from traincrew.engine.errors import ApiError
from traincrew.engine.observability import get_logger
from traincrew.engine.resources import PODS
from traincrew.engine.times import format_time
from traincrew.local.node.fields.downward import PodFacts
from traincrew.local.node.machine.loopback import is_taken
from traincrew.local.node.network.hostports import PodPorts, taken_ports
from traincrew.local.node.network.hosts import PodName, kernel_host_name
from traincrew.local.node.network.resolvconf import queries_cluster
from traincrew.local.node.network.resolvconf_mount import can_reach
from traincrew.local.node.pods.evictions import EVICTED, GRACE_SECONDS, limited_storage
from traincrew.local.node.pods.mounting import Mounting, pod_reference
from traincrew.local.node.pods.resizing import Resizing
from traincrew.local.node.pods.sequence import ContainerSequence
from traincrew.local.node.pods.unsupported import unsupported
from traincrew.local.node.records.record import PodRecord
from traincrew.local.node.records.reporting import StatusReporter
from traincrew.local.node.records.status import FINISHED
from traincrew.local.node.volumes.podvolumes import PodVolumes
from traincrew.local.node.waiting import in_thread
from traincrew.local.sockets import holder_of

if TYPE_CHECKING:
    from pathlib import Path

    from traincrew.local.node.context import Context
    from traincrew.local.node.records.views import BoundPod
    from traincrew.local.node.runtime.processes import Join

__all__ = ["Pod"]

Document = Mapping[str, Any]

_API_RETRY_SECONDS = 1.0
_DISK_RETRY_SECONDS = 2.0
_DEADLINE = (
    "DeadlineExceeded",
    "Pod was active on the node longer than the specified deadline",
)


class Pod:
    """Runs one pod as its specification demands.

    Args:
        context: The node.
        view: The pod as it is now; later versions come through `update`.
    """

    def __init__(self, context: Context, view: BoundPod) -> None:
        self.context = context
        self.view = view
        self.uid = view.uid
        self.name = view.metadata.name
        self.namespace = view.metadata.namespace
        self.node = str(view.spec["nodeName"])
        self.restart_policy = str(view.spec.get("restartPolicy") or "Always")
        self.hostname, self._no_sandbox = kernel_host_name(
            {"name": self.name, "namespace": self.namespace}, view.spec, self.node
        )
        self.hosts: Path = context.paths.hosts
        now = format_time(datetime.now(UTC))
        started = view.status.get("startTime") or now
        self.record = PodRecord.of(view.spec, started, context.host_ip)
        self._containers = ContainerSequence(self)
        self._volumes = PodVolumes(
            context.client,
            context.paths,
            context.pod_options,
            self.facts,
            root=context.isolation.root,
        )
        self._mounting = Mounting(self, self._volumes)
        self._shown: dict[str, Document] = {
            status["name"]: status
            for kind in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
            for status in view.status.get(kind) or ()
        }
        self._resizing = Resizing(self, view, self._containers.container)
        self._events = context.events.reporter("kubelet", self.node)
        self._reporter = StatusReporter(context.client, view, self.record)
        self._task: asyncio.Task[None] | None = None
        self._updated = asyncio.Event()
        self._gone = False
        self._reported: set[str] = set()
        self._log = get_logger(pod=f"{self.namespace}/{self.name}")

    # -- interface for its parts and the node ----------------------------------------------------

    @property
    def grace(self) -> float:
        """Grace period for the termination of its containers, in seconds."""
        seconds = self.view.metadata.deletion_grace_period_seconds
        if seconds is None:
            seconds = self.view.spec.get("terminationGracePeriodSeconds")
        return 30.0 if seconds is None else float(seconds)

    @property
    def is_deleted(self) -> bool:
        """Whether the object is being deleted, or is gone already."""
        return self._gone or self.view.metadata.deletion_timestamp is not None

    @property
    def is_stopping(self) -> bool:
        """Whether its containers are no longer started."""
        return self._containers.stopping.is_set()

    @property
    def described(self) -> str:
        """The pod as messages name it: `name_namespace(uid)`."""
        return f"{self.name}_{self.namespace}({self.uid})"

    def facts(self) -> PodFacts:
        """Return the pod with what only the node knows about it."""
        return PodFacts(
            self.view.document(),
            pod_ip=self.record.pod_ip,
            host_ip=self.record.host_ip,
            allocatable=self.context.allocatable.get(self.node, {}),
        )

    def shown_container(self, name: str) -> Document:
        """Return the status that the API had of a container before this node started."""
        return self._shown.get(name, {})

    def volume(self, name: str) -> Path:
        """Return the path of a prepared volume.

        Raises:
            VolumeError: The pod has no such volume.
        """
        return self._volumes.directory(name)

    def shows(self, directory: Path) -> bool:
        """Return whether one of its volumes is this directory."""
        return self._volumes.shows(directory)

    def join(self, container: Document) -> Join | None:
        """Return the namespaces that a container enters; None if it gets its own.

        Raises:
            FieldError: The target container is not running.
        """
        return self._containers.ephemeral.join(container)

    def changed(self) -> None:
        """Report that a record has changed."""
        self._reporter.changed()
        self._containers.ephemeral.changed()

    def event(self, kind: str, reason: str, message: str, field_path: str = "") -> None:
        """Record an event about the pod or one of its fields."""
        self._events.event(self.view.reference(field_path), kind, reason, message)

    def shared_memory(self) -> Path:
        """Return the directory that is `/dev/shm` in its containers; create it if missing."""
        path = self.context.paths.shared_memory(self.uid) / ".shm"
        if not path.exists():
            path.mkdir(parents=True)
            path.chmod(0o1777)
        return path

    def not_emulated(self, lines: Iterable[str]) -> None:
        """Report what this pod asks for without effect, each item once."""
        new = [line for line in lines if line not in self._reported]
        if new:
            self._reported.update(new)
            text = "Not emulated here: " + "; ".join(new)
            self.context.events.event(self.view.reference(), "Warning", "NotEmulated", text)

    # -- changes of the object --------------------------------------------------------------------

    def start(self) -> None:
        """Start running the pod."""
        self._task = asyncio.create_task(self._run(), name=f"pod {self.namespace}/{self.name}")

    def update(self, view: BoundPod) -> None:
        """Handle a new version of the object."""
        before, self.view = self.view, view
        self._reporter.seen(view)
        self._updated.set()
        self._containers.ephemeral.update(view.spec)
        if not self.is_stopping:
            self._resizing.update(view.spec)
        if (before.metadata.labels, before.metadata.annotations) != (
            view.metadata.labels,
            view.metadata.annotations,
        ):
            self.context.sources.changed(self.namespace, pod_reference(self.uid))
        if self.is_deleted and self._task is not None and self._task.done():
            self._task = asyncio.create_task(self._delete_object())

    async def remove(self) -> None:
        """Kill its containers and delete its files; the object is gone."""
        self._gone = True
        self._updated.set()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
        self._release()
        await in_thread(self.context.paths.remove_pod, self.uid)

    async def detach(self) -> None:
        """Stop managing it; running containers continue."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # -- life cycle --------------------------------------------------------------------------------

    async def _run(self) -> None:
        if self.view.status.get("phase") not in FINISHED:
            reporting = asyncio.create_task(self._reporter.run())
            try:
                await self._live()
            except Exception as error:  # noqa: BLE001  # logged, and shown in the pod's status
                # The status must show that the node no longer manages the pod.
                self._log.exception("a defect of the node ended the pod")
                self.record.failure = ("NodeError", f"{type(error).__name__}: {error}")
                self._containers.kill()
            finally:
                reporting.cancel()
                await asyncio.gather(reporting, return_exceptions=True)
            self.record.close(self.view.spec)
            await self._retry(self._reporter.write)
            self._release()
            await self._volumes.remove()
        if self.is_deleted:
            await self._delete_object()

    def _release(self) -> None:
        self.context.hosts.remove_pod(self.uid)
        self.context.host_ports.remove(self.uid)
        self.context.addresses.release(self.uid)

    async def _delete_object(self) -> None:
        """Delete the object for good, now that no container runs any more."""
        if not self._gone:
            await self._retry(self._delete_now)

    async def _delete_now(self) -> None:
        client, name, namespace = self.context.client, self.name, self.namespace
        # What happens to dependents is up to whoever has asked for the deletion.
        deleting = client.delete(
            PODS, name, namespace, propagation=None, grace_period=0, uid=self.uid
        )
        await client.unless_gone(deleting, PODS, name, namespace, uid=self.uid)

    async def _retry(self, write: Any) -> None:
        while not self._gone:
            try:
                await write()
            except ApiError as error:
                self._log.warning("the API server rejects the request", error=str(error))
                await asyncio.sleep(_API_RETRY_SECONDS)
            else:
                return

    async def _live(self) -> None:
        """Run the containers to their end."""
        spec = self.view.spec
        address = self.context.addresses.allocate(
            self.uid,
            self.view.status.get("podIP", ""),
            node=self.node if spec.get("hostNetwork") else "",
        )
        self.record.pod_ip = address
        self.context.host_ports.add(self.uid, PodPorts.of(self.namespace, self.name, spec, address))
        name = PodName.of(
            self.namespace, self.name, spec, address, mirrors=self._needs_names_in_file()
        )
        await self._publish(name)
        if not self._shown:
            found = unsupported(self.view.document(), self.context.isolation)
            self.not_emulated([f"{each.field}: {each.why}" for each in found])
        watching = [asyncio.create_task(self._watch_for_end())]
        if self._volumes.follows_api:
            watching.append(asyncio.create_task(self._mounting.follow()))
        try:
            await self._run_containers()
            await self._containers.ephemeral.finish()
        finally:
            await self._containers.ephemeral.leave()
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)

    async def _publish(self, name: PodName) -> None:
        """Write its hosts file: as long as the disk is full, its start is tried again."""
        while not self.is_deleted:
            self._updated.clear()
            try:
                self.hosts = self.context.hosts.add_pod(self.uid, name)
            except OSError as error:
                place = self.context.paths.state
                text = f"Failed to create pod sandbox: {place}: {error.strerror}"
                self.event("Warning", "FailedCreatePodSandBox", text)
                for record in self.record.containers.values():
                    if record.state == "waiting":
                        record.message = text
                self.changed()
            else:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_DISK_RETRY_SECONDS):
                    await self._updated.wait()

    def _needs_names_in_file(self) -> bool:
        """Return whether its programs query the cluster's DNS server, but cannot reach it."""
        redirected = self.context.capabilities.own_ports
        return queries_cluster(self.view.spec) and not can_reach(
            self.context.dns, redirected=redirected
        )

    async def _run_containers(self) -> None:
        self._containers.add(self._resizing.allocated(self.view.spec))
        self._resizing.update(self.view.spec, reports=False)
        if self.is_deleted:
            # No container starts any more, but those of an earlier node have to be terminated.
            self._containers.stop(self.grace)
        elif self._no_sandbox:
            self.event("Warning", "FailedCreatePodSandBox", self._no_sandbox)
            await self._containers.stopping.wait()
            return
        elif not await self._mounting.prepare(self._containers.stopping):
            return
        if not self._shown:
            await self._report_taken_ports()
        self._containers.ephemeral.start(self.view.spec)
        with limited_storage(self, self.view.spec, self._containers.running, self._evict):
            await self._containers.run()

    def _evict(self, message: str) -> None:
        if self.record.failure is None and not self.is_deleted:
            self.record.failure = (EVICTED, message)
            self.event("Warning", EVICTED, message)
            self._containers.stop(GRACE_SECONDS)

    async def _report_taken_ports(self) -> None:
        """Report programs of the machine that listen where the pod's own should.

        Who connects to the pod reaches them instead, and would not notice.
        """
        services = [
            each for each in self.context.services() if each.metadata.namespace == self.namespace
        ]
        address = self.record.pod_ip

        def holder(port: int) -> str:
            return holder_of(port, address) if is_taken(address, port) else ""

        finding = taken_ports(self.view.spec, self.view.metadata.labels, services, holder)
        for port, found in await asyncio.to_thread(list, finding):
            self.event(
                "Warning",
                "HostPortConflict",
                f"port {port} is taken on this machine by {found}: the pod cannot listen there, "
                "and who connects to it reaches that program; end it, or choose another port",
            )

    async def _watch_for_end(self) -> None:
        """Stop the containers when the pod is deleted or exceeds its deadline."""
        while True:
            self._updated.clear()
            if self._gone:
                self._containers.stop(0.0)
            elif self.is_deleted:
                self._containers.stop(self.grace)
            left = self._until_deadline()
            if left is not None and left <= 0 and self.record.failure is None:
                self.record.failure = _DEADLINE
                self.event("Warning", *_DEADLINE)
                self._containers.stop(self.grace)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left if left is None or left > 0 else None):
                    await self._updated.wait()

    def _until_deadline(self) -> float | None:
        seconds = self.view.spec.get("activeDeadlineSeconds")
        if seconds is None or self.record.failure is not None:
            return None
        started = datetime.fromisoformat(self.record.start_time).timestamp()
        return started + float(seconds) - time.time()
