"""One pod on the node, from its binding to its removal."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from traincrew.engine.errors import ApiError, ConflictError, NotFoundError
from traincrew.engine.logs import get_logger
from traincrew.engine.resources import PODS
from traincrew.local.node.container import Container, Role
from traincrew.local.node.fields import PodFacts
from traincrew.local.node.hosts import PodName, pod_host_name
from traincrew.local.node.records import PodRecord, is_sidecar
from traincrew.local.node.references import Reference
from traincrew.local.node.reporting import StatusReporter
from traincrew.local.node.status import FINISHED
from traincrew.local.node.threads import in_thread
from traincrew.local.node.unsupported import unsupported
from traincrew.local.node.volumes import NamespaceNotReadyError, PodVolumes, VolumeError

if TYPE_CHECKING:
    from pathlib import Path

    from traincrew.local.node.context import Context
    from traincrew.local.node.views import PodView

__all__ = ["Pod"]

Document = Mapping[str, Any]

_FIRST_VOLUME_RETRY = 0.5
_LONGEST_VOLUME_RETRY = 10.0
# So long a namespace may be without what controllers put there before anybody is told.
_NEW_NAMESPACE_SECONDS = 5.0
_NEW_NAMESPACE_RETRY = 0.05
_API_RETRY_SECONDS = 1.0
_DEADLINE = (
    "DeadlineExceeded",
    "Pod was active on the node longer than the specified deadline",
)


class Pod:
    """Carries out what a pod's specification says.

    Args:
        context: The node.
        view: The pod as it is now; later versions come through `update`.
    """

    def __init__(self, context: Context, view: PodView) -> None:
        self.context = context
        self.view = view
        self.uid = view.uid
        self.name = view.metadata.name
        self.namespace = view.metadata.namespace
        self.node = str(view.spec["nodeName"])
        self.events = context.events.reporter("kubelet", self.node)
        self.restart_policy = str(view.spec.get("restartPolicy") or "Always")
        self.hostname, domain = pod_host_name(
            {"name": self.name, "namespace": self.namespace}, view.spec
        )
        if view.spec.get("setHostnameAsFQDN") and domain:
            self.hostname = domain
        self.hosts: Path = context.paths.hosts
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        started = view.status.get("startTime") or now
        self.record = PodRecord.of(view.spec, started, context.host_ip)
        self.containers: dict[str, Container] = {}
        security = view.spec.get("securityContext") or {}
        group = security.get("fsGroup") if context.isolation.root else None
        self.volumes = PodVolumes(context, self.facts, group)
        self._shown: dict[str, Document] = {
            status["name"]: status
            for kind in ("containerStatuses", "initContainerStatuses")
            for status in view.status.get(kind) or ()
        }
        self._reporter = StatusReporter(context.client, view, self.record)
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._updated = asyncio.Event()
        self._stop_at = 0.0
        self._gone = False
        self._told: set[str] = set()
        self._log = get_logger(pod=f"{self.namespace}/{self.name}")

    # -- what its parts and the rest of the node ask -----------------------------------------------

    @property
    def grace(self) -> float:
        """Seconds its containers get to end."""
        seconds = self.view.metadata.deletion_grace_period_seconds
        if seconds is None:
            seconds = self.view.spec.get("terminationGracePeriodSeconds")
        return 30.0 if seconds is None else float(seconds)

    @property
    def is_deleted(self) -> bool:
        """Whether somebody wants it gone, or it is gone already."""
        return self._gone or self.view.metadata.deletion_timestamp is not None

    @property
    def is_stopping(self) -> bool:
        """Whether nothing of it starts any more."""
        return self._stop.is_set()

    @property
    def described(self) -> str:
        """As messages name it: `name_namespace(uid)`."""
        return f"{self.name}_{self.namespace}({self.uid})"

    def facts(self) -> PodFacts:
        """The pod and what only the node knows."""
        return PodFacts(
            self.view.document(),
            pod_ip=self.record.pod_ip,
            host_ip=self.record.host_ip,
            allocatable=self.context.allocatable.get(self.node, {}),
        )

    def shown_container(self, name: str) -> Document:
        """What the API said about a container before this node came."""
        return self._shown.get(name, {})

    def reference(self, field_path: str = "") -> dict[str, Any]:
        """For events."""
        return self.view.reference(field_path)

    def changed(self) -> None:
        """A record has changed."""
        self._reporter.changed()

    def shared_memory(self) -> Path:
        """The directory that is `/dev/shm` in its containers."""
        path = self.context.paths.shared_memory(self.uid) / ".shm"
        if not path.exists():
            path.mkdir(parents=True)
            path.chmod(0o1777)
        return path

    def not_emulated(self, lines: Iterable[str]) -> None:
        """Tell about what this pod does not get, each thing once."""
        new = [line for line in lines if line not in self._told]
        if new:
            self._told.update(new)
            text = "Not emulated here: " + "; ".join(new)
            self.context.events.event(self.reference(), "Warning", "NotEmulated", text)

    # -- what happens to it --------------------------------------------------------------------

    def start(self) -> None:
        """Begin to carry it out."""
        self._task = asyncio.create_task(self._run(), name=f"pod {self.namespace}/{self.name}")

    def update(self, view: PodView) -> None:
        """The object has changed."""
        before, self.view = self.view, view
        self._reporter.seen(view)
        self._updated.set()
        if (before.metadata.labels, before.metadata.annotations) != (
            view.metadata.labels,
            view.metadata.annotations,
        ):
            self.context.sources.changed(self.namespace, self._itself())
        if self.is_deleted and self._task is not None and self._task.done():
            self._task = asyncio.create_task(self._delete_object())

    async def remove(self) -> None:
        """The object is gone: end everything at once and leave nothing."""
        self._gone = True
        self._updated.set()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
        self._release()
        await in_thread(self.context.paths.remove_pod, self.uid)

    async def detach(self) -> None:
        """Look after it no longer; what runs goes on."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _itself(self) -> Reference:
        return Reference("Pod", self.uid)

    # -- life ------------------------------------------------------------------------------------

    async def _run(self) -> None:
        if self.view.status.get("phase") not in FINISHED:
            reporting = asyncio.create_task(self._reporter.run())
            try:
                await self._live()
            except Exception as error:  # noqa: BLE001  # logged, and shown in the pod's status
                # Whoever looks at the pod has to see that it is not looked after any more.
                self._log.exception("a defect of the node ended the pod")
                self.record.failure = ("NodeError", f"{type(error).__name__}: {error}")
                await self._end_all_at_once()
            finally:
                reporting.cancel()
                await asyncio.gather(reporting, return_exceptions=True)
            self.record.close(self.view.spec)
            await self._insist(self._reporter.write)
            self._release()
            await self.volumes.remove()
        if self.is_deleted:
            await self._delete_object()

    def _release(self) -> None:
        self.context.hosts.remove_pod(self.uid)
        self.context.addresses.take_back(self.uid)

    async def _delete_object(self) -> None:
        """Say that nothing of it runs any more: only then may the object go."""
        if not self._gone:
            await self._insist(self._delete_now)

    async def _delete_now(self) -> None:
        with contextlib.suppress(NotFoundError, ConflictError):
            await self.context.client.delete(
                PODS, self.name, self.namespace, grace_period=0, uid=self.uid
            )

    async def _insist(self, write: Any) -> None:
        while not self._gone:
            try:
                await write()
            except ApiError as error:
                self._log.warning("the API server does not take it", error=str(error))
                await asyncio.sleep(_API_RETRY_SECONDS)
            else:
                return

    async def _live(self) -> None:
        """Run the containers to their end."""
        spec = self.view.spec
        address = self.context.addresses.give(self.uid, self.view.status.get("podIP", ""))
        self.record.pod_ip = address
        aliases = tuple(
            (alias["ip"], tuple(alias.get("hostnames") or ()))
            for alias in spec.get("hostAliases") or ()
        )
        hostname, _ = pod_host_name({"name": self.name}, {"hostname": spec.get("hostname")})
        self.hosts = self.context.hosts.add_pod(
            self.uid,
            PodName(
                self.namespace,
                address,
                hostname,
                spec.get("subdomain") or "",
                aliases,
                host_network=bool(spec.get("hostNetwork")),
            ),
        )
        if not self._shown:
            found = unsupported(self.view.document(), self.context.isolation)
            self.not_emulated([f"{each.field}: {each.why}" for each in found])
        watching = [asyncio.create_task(self._watch_for_end())]
        if self.volumes.follows_api:
            watching.append(asyncio.create_task(self._follow_volumes()))
        try:
            await self._run_containers()
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)

    async def _watch_for_end(self) -> None:
        """Stop the containers when the pod is deleted or has run too long."""
        while True:
            self._updated.clear()
            if self._gone:
                self._stop_all(0.0)
            elif self.is_deleted:
                self._stop_all(self.grace)
            left = self._until_deadline()
            if left is not None and left <= 0 and self.record.failure is None:
                self.record.failure = _DEADLINE
                self.events.event(self.reference(), "Warning", *_DEADLINE)
                self._stop_all(self.grace)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left if left is None or left > 0 else None):
                    await self._updated.wait()

    def _until_deadline(self) -> float | None:
        seconds = self.view.spec.get("activeDeadlineSeconds")
        if seconds is None or self.record.failure is not None:
            return None
        started = datetime.fromisoformat(self.record.start_time).timestamp()
        return started + float(seconds) - time.time()

    def _stop_all(self, grace: float) -> None:
        """Stop what runs. Sidecars follow when the others have ended, unless there is no time."""
        stop_at = time.monotonic() + grace
        self._stop_at = min(self._stop_at, stop_at) if self._stop.is_set() else stop_at
        self._stop.set()
        for container in self.containers.values():
            if container.role != "sidecar" or grace <= 0:
                container.stop(grace)

    async def _end_all_at_once(self) -> None:
        for container in self.containers.values():
            if container.running is not None:
                container.running.instance.kill()

    # -- containers ------------------------------------------------------------------------------

    async def _run_containers(self) -> None:
        spec = self.view.spec
        roles: list[tuple[Document, Role]] = [
            (each, "sidecar" if is_sidecar(each) else "init")
            for each in spec.get("initContainers") or ()
        ]
        roles += [(each, "main") for each in spec["containers"]]
        for each, role in roles:
            container = Container(self, each, role)
            self.containers[container.name] = container
        if self.is_deleted:
            # Nothing starts any more, but what an earlier node started has to end.
            self._stop_all(self.grace)
        elif not await self._prepare_volumes():
            return
        sidecars: list[tuple[Container, asyncio.Task[bool]]] = []
        try:
            if await self._initialise(sidecars):
                mains = [each for each in self.containers.values() if each.role == "main"]
                await asyncio.gather(*(each.run() for each in mains))
        except BaseException:
            for _, task in sidecars:
                task.cancel()
            await asyncio.gather(*(task for _, task in sidecars), return_exceptions=True)
            raise
        for sidecar, task in reversed(sidecars):
            left = self._stop_at - time.monotonic() if self._stop.is_set() else self.grace
            sidecar.stop(max(left, 0.0))
            await task

    async def _initialise(self, sidecars: list[tuple[Container, asyncio.Task[bool]]]) -> bool:
        """Run the init containers one after the other, and start the sidecars among them.

        Returns:
            Whether the main containers may start.
        """
        for container in self.containers.values():
            if container.role == "sidecar":
                task = asyncio.create_task(container.run(), name=f"sidecar {container.name}")
                sidecars.append((container, task))
                started = asyncio.create_task(container.started.wait())
                stop = asyncio.create_task(self._stop.wait())
                try:
                    await asyncio.wait({started, task, stop}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    started.cancel()
                    stop.cancel()
            elif container.role == "init":
                succeeded = await container.run()
                if not succeeded and not self._stop.is_set():
                    return False
        # Those that ran before the pod was stopped are still to be brought to their end.
        return True

    async def _prepare_volumes(self) -> bool:
        """Set up the volumes; False if the pod is stopped before they could be."""
        delay = _FIRST_VOLUME_RETRY
        quiet_until = time.monotonic() + _NEW_NAMESPACE_SECONDS
        while True:
            pause = delay
            try:
                await self.volumes.prepare()
            except VolumeError as error:
                is_new = isinstance(error, NamespaceNotReadyError)
                if is_new and time.monotonic() < quiet_until:
                    pause = _NEW_NAMESPACE_RETRY
                    self.changed()
                else:
                    delay = min(delay * 2, _LONGEST_VOLUME_RETRY)
                    self._tell_volume_error(str(error))
            else:
                self._tell_volume_error("")
                self.record.prepared = True
                self.changed()
                return True
            waiting = self.context.sources.wait(self.namespace, self.volumes.references(), pause)
            if not await self._unless_stopped(waiting):
                return False

    def _tell_volume_error(self, message: str) -> None:
        if message:
            self.events.event(self.reference(), "Warning", "FailedMount", message)
        for record in self.record.containers.values():
            if record.state == "waiting" and record.message != message:
                record.message = message
                self.changed()

    async def _unless_stopped(self, work: Awaitable[None]) -> bool:
        task = asyncio.ensure_future(work)
        stop = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in (task, stop):
                each.cancel()
            await asyncio.gather(task, stop, return_exceptions=True)
        return not self._stop.is_set()

    async def _follow_volumes(self) -> None:
        """Keep volumes that show API objects current."""
        references = {*self.volumes.references(), self._itself()}
        with self.context.sources.watching(self.namespace, references) as changed:
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self.volumes.token_lifetime()):
                        await changed.wait()
                # Before the look, so that a change in the middle of it brings another one.
                changed.clear()
                await self.volumes.refresh()
