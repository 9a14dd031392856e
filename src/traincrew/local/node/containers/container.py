"""One container of a pod, from its image pull to its final termination."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from traincrew.engine.errors import ApiError
from traincrew.local.images import ImagePullError, UnknownUserError
from traincrew.local.images.reference import parse_reference
from traincrew.local.images.sources import Source
from traincrew.local.node.containers.adoption import adopt
from traincrew.local.node.containers.bare import remove_links
from traincrew.local.node.containers.ends import epoch, terminated, to_second
from traincrew.local.node.containers.handlers import Target
from traincrew.local.node.containers.identity import RootRefusedError
from traincrew.local.node.containers.imagevolumes import as_container, image_volumes
from traincrew.local.node.containers.memoryfiles import memory_files
from traincrew.local.node.containers.preparation import prepare
from traincrew.local.node.containers.pulling import pull_failure_events, pull_image
from traincrew.local.node.containers.restarts import (
    BackOff,
    restart_policy,
    restarts_for,
    should_restart,
)
from traincrew.local.node.containers.running import Reports, Running
from traincrew.local.node.fields.downward import FieldError
from traincrew.local.node.fields.environment import NoCommandError
from traincrew.local.node.fields.references import MissingReferenceError, env_references
from traincrew.local.node.machine.gpus import wanted_gpus
from traincrew.local.node.runtime.instances import Exit, Instance, instances_of
from traincrew.local.node.runtime.processes import StartFailedError
from traincrew.local.node.sandbox import files
from traincrew.local.node.volumes.podvolumes import VolumeError
from traincrew.local.node.waiting import StoppedError, unless_stopped

if TYPE_CHECKING:
    from traincrew.local.images import Environment, ImageRoot
    from traincrew.local.node.containers.handle import PodHandle
    from traincrew.local.node.containers.preparation import Prepared
    from traincrew.local.node.records.record import ContainerRecord

__all__ = ["Container", "Role"]

Document = Mapping[str, Any]
Role = Literal["init", "sidecar", "main", "ephemeral"]
T = TypeVar("T")

_CONFIG_RETRY_SECONDS = 10.0
_SHOW_PULL_ERROR_SECONDS = 2.0


class _NoSpaceError(Exception):
    """The disk has no space for the files of an instance."""


class Container:
    """Runs one container of a pod and restarts it as its restart policy demands.

    Args:
        pod: The pod it belongs to.
        spec: Of the container.
        role: What it is in the pod.
    """

    def __init__(self, pod: PodHandle, spec: Document, role: Role) -> None:
        self.name = str(spec["name"])
        self.spec = spec
        self.role = role
        self.record: ContainerRecord = pod.record.container(self.name)
        self.running: Running | None = None
        """The running instance, if there is one."""
        self.started = asyncio.Event()
        """Set while it runs and its startup probe has succeeded."""
        self._pod = pod
        self._context = pod.context
        self._directory = pod.context.paths.containers(pod.uid) / self.name
        self._stop = asyncio.Event()
        self._kill_at = 0.0
        self._back_off = BackOff(immediate=True)
        self._number = 0
        self._resized = False

    # -- life cycle ----------------------------------------------------------------------

    async def run(self) -> bool:
        """Run the container until it has terminated and will not be restarted.

        Returns:
            Whether its last instance succeeded.
        """
        try:
            instance = self._adopt()
            if instance is not None:
                await self._supervise(instance, adopted=True)
            while self.record.state != "terminated" or self._restarts():
                if self._stop.is_set() or self._pod.is_stopping:
                    return False
                await self._wait_to_restart()
                instance = await self._start()
                if instance is not None:
                    await self._supervise(instance, adopted=False)
            return self._succeeded()
        except StoppedError:
            return False
        finally:
            self.started.clear()
            self._context.gpus.release(self._pod.uid, self.name)

    def _succeeded(self) -> bool:
        end = self.record.terminated
        return end is not None and end.exit_code == 0

    def _restarts(self) -> bool:
        """Return whether the terminated container is to be restarted."""
        if self._stop.is_set() or self._pod.is_stopping:
            return False
        if self._resized:
            self._resized = False
            return True
        policy = restart_policy(self.role, self._pod.restart_policy)
        end = self.record.terminated
        code = 137 if end is None else end.exit_code
        return should_restart(policy, code, sidecar=self.role == "sidecar")

    async def _wait_to_restart(self) -> None:
        end = self.record.terminated
        if end is None:
            return
        delay = self._back_off.after(_seconds(end.started_at, end.finished_at))
        elapsed = max(0.0, time.time() - epoch(end.finished_at)) if end.finished_at else 0.0
        delay -= elapsed
        if delay <= 0:
            return
        text = f"back-off {self._back_off.current:.0f}s restarting failed container={self.name} "
        text += f"pod={self._pod.described}"
        self.record.wait("CrashLoopBackOff", text)
        text = f"Back-off restarting failed container {self.name} in pod {self._pod.described}"
        self._event("Warning", "BackOff", text)
        self._pod.changed()
        await self._unless_stopped(asyncio.sleep(delay))

    def _adopt(self) -> Instance | None:
        """Return an earlier node's instance that is running or whose end is not yet reported."""
        shown = self._pod.shown_container(self.name)
        earlier = adopt(self.record, self._directory, shown, self.spec, is_init=self.role == "init")
        self._number = earlier.next_number
        self._back_off = BackOff(immediate=True, failures=earlier.failures)
        if earlier.instance is not None:
            with contextlib.suppress(OSError):
                if gpus := earlier.instance.launch().gpus:
                    self._context.gpus.hold(self._pod.node, self._pod.uid, self.name, gpus)
        return earlier.instance

    # -- start ------------------------------------------------------------------------------

    async def _start(self) -> Instance | None:
        """Start the next instance; return None, with the end on record, if it did not start."""
        images = await self._volume_images()
        environment = await self._pull(self.spec, self._event)
        while True:
            try:
                devices = self._devices()
                directory = self._directory / str(self._number)
                preparing = prepare(
                    self._pod, self.spec, environment, directory, devices, images=images
                )
                prepared = await self._unless_stopped(preparing)
                return await self._launch(prepared, environment)
            except (NoCommandError, UnknownUserError, _NoSpaceError) as error:
                self._wait_for_config("CreateContainerError", str(error))
            except (
                MissingReferenceError,
                FieldError,
                RootRefusedError,
                VolumeError,
                ApiError,
                OSError,
            ) as error:
                self._wait_for_config("CreateContainerConfigError", str(error))
            waiting = self._context.sources.wait(
                self._pod.namespace, set(env_references(self.spec)), _CONFIG_RETRY_SECONDS
            )
            await self._unless_stopped(waiting)

    async def _launch(self, prepared: Prepared, environment: Environment) -> Instance | None:
        """Start a prepared instance; return None, with the end on record, if it did not start.

        Raises:
            _NoSpaceError: The disk is full; it can be tried again.
        """
        self.record.image = str(parse_reference(self.spec["image"]))
        self.record.image_id = environment.image_id
        instance = prepared.instance
        self._event("Normal", "Created", "Container created")
        try:
            started = await self._context.fork_server.run(prepared.process)
        except StartFailedError as error:
            if error.reason == "CreateContainerError":
                raise _NoSpaceError(error.message) from error
            self._event("Warning", "Failed", f"Error: {error.message}")
            end = instance.exit() or Exit(
                128, 0, files.now(), files.now(), error.reason, error.message
            )
            self._record_start(instance, end.started_at)
            self.record.end(terminated(instance, end, self.spec))
            self._clean_up(instance)
            self._pod.changed()
            return None
        self._record_start(instance, started.started_at)
        self._event("Normal", "Started", "Container started")
        return instance

    def _record_start(self, instance: Instance, started_at: str) -> None:
        self.record.run(instance.container_id, to_second(started_at), self._number)
        self._number += 1
        self._pod.changed()

    def _devices(self) -> list[int]:
        count = wanted_gpus(self.spec)
        devices = self._context.gpus.allocate(self._pod.node, self._pod.uid, self.name, count)
        if devices is None:
            raise FieldError(f"{count} GPUs requested, fewer are free on node {self._pod.node}")
        return devices

    def _wait_for_config(self, reason: str, message: str) -> None:
        if (self.record.reason, self.record.message) != (reason, message):
            self._event("Warning", "Failed", f"Error: {message}")
        self.record.wait(reason, message)
        self._pod.changed()

    def _wait_for_secrets(self, error: ApiError) -> None:
        """Report that Secrets of the pull cannot be read; the event has the kubelet's reason."""
        message = f"the Secrets that imagePullSecrets names cannot be read: {error}"
        if self.record.message != message:
            self._event("Warning", "FailedToRetrieveImagePullSecret", message)
        self.record.wait("ErrImagePull", message)
        self._pod.changed()

    async def _volume_images(self) -> dict[str, ImageRoot]:
        """Pull the images that are volumes of this container."""
        found = {}
        for name, volume in image_volumes(self._pod.facts().spec, self.spec).items():
            pulled = await self._pull(as_container(volume), self._pod.event, Source.IMAGE)
            if pulled.root is not None:
                found[name] = pulled.root
        return found

    async def _pull(
        self,
        container: Document,
        record_event: Callable[[str, str, str], None],
        source: Source | None = None,
    ) -> Environment:
        """Pull an image as often as it takes; see `pull_image`."""
        back_off = BackOff(immediate=False)
        image = container.get("image", "")
        while True:
            try:
                pulling = pull_image(self._pod, container, record_event, source)
                return await self._unless_stopped(pulling)
            except ApiError as error:
                self._wait_for_secrets(error)
                await self._unless_stopped(asyncio.sleep(_CONFIG_RETRY_SECONDS))
            except ImagePullError as error:
                delay = back_off.after()
                for reason, text in pull_failure_events(image, error):
                    record_event("Warning", reason, text)
                self.record.wait(error.reason, error.message)
                self._pod.changed()
                await self._unless_stopped(asyncio.sleep(_SHOW_PULL_ERROR_SECONDS))
                if error.reason == "ErrImagePull":
                    text = f'Back-off pulling image "{image}"'
                    self.record.wait("ImagePullBackOff", f"{text}: {error.reason}: {error.message}")
                    record_event("Normal", "BackOff", text)
                    record_event("Warning", "Failed", "Error: ImagePullBackOff")
                    self._pod.changed()
                await self._unless_stopped(asyncio.sleep(delay - _SHOW_PULL_ERROR_SECONDS))

    async def _unless_stopped(self, work: Awaitable[T]) -> T:
        return await unless_stopped(self._stop, work)

    # -- running -------------------------------------------------------------------------------

    async def _supervise(self, instance: Instance, *, adopted: bool) -> None:
        """Supervise an instance until it has ended."""
        address = self._pod.record.pod_ip or self._context.host_ip
        files = memory_files(self._pod, self.spec)
        self.running = Running(
            Target(self._context.fork_server, instance, self.spec, address),
            self._context.memory,
            files,
            self._pod.grace,
            Reports(self._on_started, self._on_ready, self._event),
        )
        if self._stop.is_set():
            self.running.stop(self._kill_at - time.monotonic())
        with self._context.usage.tracking(instance, files, self._pod.node):
            end = await self.running.supervise(adopted=adopted)
        self.running = None
        self.started.clear()
        if end.disk_full:
            text = f"The disk with {self._context.paths.state} is full: output of container "
            self._event("Warning", "DiskFull", f"{text}{self.name} is lost")
        self._context.written.add(instance)
        self.record.end(terminated(instance, end, self.spec))
        self._clean_up(instance)
        self._pod.changed()

    def _on_started(self) -> None:
        self.record.started = True
        self.started.set()
        self._pod.changed()

    def _on_ready(self, ready: bool) -> None:
        if self.record.ready != ready:
            self.record.ready = ready
            self._pod.changed()

    def resize(self, spec: Document, before: Document) -> None:
        """Apply new resources to the running instance, or restart it if it wants that.

        Args:
            spec: Of the container, with the new resources.
            before: The resources that it has had.
        """
        self.spec = spec
        if self.running is None:
            return
        self.running.resize(spec, memory_files(self._pod, spec))
        if restarts_for(spec, before):
            self._resized = True
            text = f"Container {self.name} resize requires restart"
            self.running.end_for(text, self._pod.grace)

    # -- termination ------------------------------------------------------------------------------

    def stop(self, grace: float) -> None:
        """Terminate it for good within `grace` seconds; a later call may shorten the period."""
        if self.running is not None:
            if not self._stop.is_set():
                self._event("Normal", "Killing", f"Stopping container {self.name}")
            self.running.stop(grace)
        self._kill_at = time.monotonic() + grace
        self._stop.set()

    def _clean_up(self, instance: Instance) -> None:
        """Keep the logs of this instance and the previous one; remove older ones."""
        for known in instances_of(self._directory):
            if known.number < instance.number - 1:
                known.remove()
        with contextlib.suppress(OSError):
            remove_links(instance.launch().links)

    # -- helpers --------------------------------------------------------------------------

    def _event(self, kind: str, reason: str, message: str) -> None:
        group = {"main": "containers", "ephemeral": "ephemeralContainers"}.get(
            self.role, "initContainers"
        )
        self._pod.event(kind, reason, message, f"spec.{group}{{{self.name}}}")


def _seconds(start: str, end: str) -> float:
    return epoch(end) - epoch(start) if start and end else 0.0
