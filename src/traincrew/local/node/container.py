"""One container of a pod, from waiting for its image to its last end."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from traincrew.engine.errors import ApiError
from traincrew.local.images import ImagePullError
from traincrew.local.images.reference import parse_reference
from traincrew.local.node.bare import remove_links
from traincrew.local.node.environment import NoCommandError
from traincrew.local.node.fields import FieldError
from traincrew.local.node.gpus import wanted_gpus
from traincrew.local.node.handlers import Target
from traincrew.local.node.identity import RootRefusedError
from traincrew.local.node.instances import Exit, Instance, instances_of
from traincrew.local.node.launcher import StartFailedError
from traincrew.local.node.logs import tail_of
from traincrew.local.node.preparation import prepare
from traincrew.local.node.pulling import pull_failure_events, pull_image
from traincrew.local.node.records import ContainerRecord, Terminated
from traincrew.local.node.references import MissingReferenceError, env_references
from traincrew.local.node.restarts import BackOff, should_restart
from traincrew.local.node.running import Reports, Running
from traincrew.local.node.sandbox import files
from traincrew.local.node.volumes import VolumeError

if TYPE_CHECKING:
    from traincrew.local.images import Environment
    from traincrew.local.node.pod import Pod

__all__ = ["Container", "Role"]

Document = Mapping[str, Any]
Role = Literal["init", "sidecar", "main"]
T = TypeVar("T")

_CONFIG_RETRY_SECONDS = 10.0
_SHOW_PULL_ERROR_SECONDS = 2.0
_MESSAGE_LIMIT = 4096
_FALLBACK_LINES = 80
_FALLBACK_LIMIT = 2048
_LOST = "The container could not be located when the pod was terminated"


class _StoppedError(Exception):
    """The container is not wanted any more."""


class Container:
    """Runs one container of a pod, again and again as its policy says.

    Args:
        pod: The pod it belongs to.
        spec: Of the container.
        role: What it is in the pod.
    """

    def __init__(self, pod: Pod, spec: Document, role: Role) -> None:
        self.name = str(spec["name"])
        self.spec = spec
        self.role = role
        self.record: ContainerRecord = pod.record.containers[self.name]
        self.running: Running | None = None
        """The instance that runs, if one does."""
        self.started = asyncio.Event()
        """Set while it runs and its startup probe has succeeded."""
        self._pod = pod
        self._context = pod.context
        self._directory = pod.context.paths.containers(pod.uid) / self.name
        self._stop = asyncio.Event()
        self._kill_at = 0.0
        self._back_off = BackOff(immediate=True)
        self._number = 0

    # -- the whole life ----------------------------------------------------------------------

    async def run(self) -> bool:
        """Run until it has ended for good.

        Returns:
            Whether its last end was a success.
        """
        try:
            instance = self._found()
            if instance is not None:
                await self._attend(instance, adopted=True)
            while self.record.state != "terminated" or self._again():
                if self._stop.is_set() or self._pod.is_stopping:
                    return False
                await self._wait_to_restart()
                instance = await self._start()
                if instance is not None:
                    await self._attend(instance, adopted=False)
            return self._succeeded()
        except _StoppedError:
            return False
        finally:
            self.started.clear()
            self._context.gpus.release(self._pod.uid, self.name)

    def _succeeded(self) -> bool:
        end = self.record.terminated
        return end is not None and end.exit_code == 0

    def _again(self) -> bool:
        """Whether the container that has just ended starts again."""
        if self._stop.is_set() or self._pod.is_stopping:
            return False
        policy = self._pod.restart_policy
        if self.role == "init" and policy == "Always":
            policy = "OnFailure"
        end = self.record.terminated
        code = 137 if end is None else end.exit_code
        return should_restart(policy, code, sidecar=self.role == "sidecar")

    async def _wait_to_restart(self) -> None:
        end = self.record.terminated
        if end is None:
            return
        delay = self._back_off.after(_seconds(end.started_at, end.finished_at))
        elapsed = max(0.0, time.time() - _epoch(end.finished_at)) if end.finished_at else 0.0
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

    # -- finding what runs already -------------------------------------------------------------

    def _found(self) -> Instance | None:
        """The instance a node before this one left, if it runs or its end is not yet told."""
        shown = self._pod.shown_container(self.name)
        known = instances_of(self._directory)
        self._number = int(shown.get("restartCount") or 0)
        if not known:
            self._note_lost(shown)
            return None
        current = known[-1]
        self._number = current.number
        self._back_off = BackOff(immediate=True, failures=current.number)
        self.record.image = shown.get("image", self.record.image)
        self.record.image_id = shown.get("imageID", "")
        if len(known) > 1 and (before := known[-2].exit()) is not None:
            self.record.end(self._terminated(known[-2], before))
        if current.processes() is None and current.exit() is None:
            # It was about to start when the node went down.
            current.abandon()
            if current.processes() is None:
                self._number += 1
                return None
        self._restore(current, shown)
        self._number += 1
        return current

    def _restore(self, instance: Instance, shown: Document) -> None:
        """Show a container as it was shown before."""
        self.record.run(instance.container_id, self._since(instance), instance.number)
        same = shown.get("containerID") == instance.container_id
        self.record.started = same and bool(shown.get("started"))
        self.record.ready = same and bool(shown.get("ready"))
        with contextlib.suppress(OSError):
            gpus = instance.launch().gpus
            if gpus:
                self._context.gpus.hold(self._pod.node, self._pod.uid, self.name, gpus)

    def _note_lost(self, shown: Document) -> None:
        """Of a container that ran there is nothing left: it counts as killed."""
        if not shown.get("containerID"):
            return
        self._number += 1
        state = shown.get("state") or {}
        ended = state.get("terminated") or (shown.get("lastState") or {}).get("terminated")
        if state.get("running") or not ended:
            started = (state.get("running") or {}).get("startedAt", "")
            end = Terminated(137, "ContainerStatusUnknown", 9, _LOST, started, files.now())
        else:
            end = Terminated(
                int(ended.get("exitCode", 137)),
                str(ended.get("reason", "")),
                int(ended.get("signal", 0)),
                str(ended.get("message", "")),
                str(ended.get("startedAt", "")),
                str(ended.get("finishedAt", "")),
                str(ended.get("containerID", "")),
            )
        self.record.restarts = self._number - 1
        self.record.container_id = shown["containerID"]
        if self.role == "init":
            # Its volumes are gone as well, so its work has to be done again.
            self.record.last = end
        else:
            self.record.end(end)

    # -- starting ------------------------------------------------------------------------------

    async def _start(self) -> Instance | None:
        """Start the next instance; None if it ended before it began, which is on record."""
        environment = await self._pull()
        while True:
            try:
                devices = self._devices()
                directory = self._directory / str(self._number)
                preparing = prepare(self._pod, self.spec, environment, directory, devices)
                prepared = await self._unless_stopped(preparing)
                break
            except NoCommandError as error:
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
        self.record.image = str(parse_reference(self.spec["image"]))
        self.record.image_id = f"traincrew://{environment.name}"
        instance = prepared.instance
        self._event("Normal", "Created", "Container created")
        try:
            started = await self._context.fork_server.run(prepared.process)
        except StartFailedError as error:
            self._event("Warning", "Failed", f"Error: {error.message}")
            end = instance.exit() or Exit(
                128, 0, files.now(), files.now(), error.reason, error.message
            )
            self._note_start(instance, end.started_at)
            self.record.end(self._terminated(instance, end))
            self._tidy(instance)
            self._pod.changed()
            return None
        self._note_start(instance, started.started_at)
        self._event("Normal", "Started", "Container started")
        return instance

    def _note_start(self, instance: Instance, started_at: str) -> None:
        self.record.run(instance.container_id, _to_second(started_at), self._number)
        self._number += 1
        self._pod.changed()

    def _devices(self) -> list[int]:
        count = wanted_gpus(self.spec)
        devices = self._context.gpus.allocate(self._pod.node, self._pod.uid, self.name, count)
        if devices is None:
            raise FieldError(f"{count} GPUs wanted, not so many free on node {self._pod.node}")
        return devices

    def _wait_for_config(self, reason: str, message: str) -> None:
        if (self.record.reason, self.record.message) != (reason, message):
            self._event("Warning", "Failed", f"Error: {message}")
        self.record.wait(reason, message)
        self._pod.changed()

    async def _pull(self) -> Environment:
        back_off = BackOff(immediate=False)
        image = self.spec.get("image", "")
        while True:
            try:
                return await self._unless_stopped(pull_image(self._context, self.spec, self._event))
            except ImagePullError as error:
                delay = back_off.after()
                for reason, text in pull_failure_events(image, error):
                    self._event("Warning", reason, text)
                self.record.wait(error.reason, error.message)
                self._pod.changed()
                await self._unless_stopped(asyncio.sleep(_SHOW_PULL_ERROR_SECONDS))
                if error.reason == "ErrImagePull":
                    text = f'Back-off pulling image "{image}"'
                    self.record.wait("ImagePullBackOff", f"{text}: {error.reason}: {error.message}")
                    self._event("Normal", "BackOff", text)
                    self._event("Warning", "Failed", "Error: ImagePullBackOff")
                    self._pod.changed()
                await self._unless_stopped(asyncio.sleep(delay - _SHOW_PULL_ERROR_SECONDS))

    async def _unless_stopped(self, work: Awaitable[T]) -> T:
        """Wait for something, unless the container is stopped first.

        Raises:
            _StoppedError: It was.
        """
        task = asyncio.ensure_future(work)
        stop = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
            if self._stop.is_set():
                raise _StoppedError
            return task.result()
        finally:
            for each in (task, stop):
                each.cancel()
            await asyncio.gather(task, stop, return_exceptions=True)

    # -- running -------------------------------------------------------------------------------

    async def _attend(self, instance: Instance, *, adopted: bool) -> None:
        """Watch over an instance until it has ended."""
        address = self._pod.record.pod_ip or self._context.host_ip
        self.running = Running(
            Target(self._context.fork_server, instance, self.spec, address),
            self._context.memory,
            self._pod.grace,
            Reports(self._on_started, self._on_ready, self._event),
        )
        if self._stop.is_set():
            self.running.stop(self._kill_at - time.monotonic())
        end = await self.running.attend(adopted=adopted)
        self.running = None
        self.started.clear()
        self.record.end(self._terminated(instance, end))
        self._tidy(instance)
        self._pod.changed()

    def _on_started(self) -> None:
        self.record.started = True
        self.started.set()
        self._pod.changed()

    def _on_ready(self, ready: bool) -> None:
        if self.record.ready != ready:
            self.record.ready = ready
            self._pod.changed()

    # -- ending --------------------------------------------------------------------------------

    def stop(self, grace: float) -> None:
        """End it for good, within so many seconds; may be called again with fewer."""
        if self.running is not None:
            if not self._stop.is_set():
                self._event("Normal", "Killing", f"Stopping container {self.name}")
            self.running.stop(grace)
        self._kill_at = time.monotonic() + grace
        self._stop.set()

    def _terminated(self, instance: Instance, end: Exit) -> Terminated:
        reason = end.reason or ("Completed" if end.exit_code == 0 else "Error")
        return Terminated(
            end.exit_code,
            reason,
            end.signal,
            end.message or self._termination_message(instance, end.exit_code),
            _to_second(end.started_at),
            _to_second(end.finished_at),
            instance.container_id,
        )

    def _termination_message(self, instance: Instance, exit_code: int) -> str:
        try:
            with (instance.directory / "termination-log").open("rb") as file:
                message = file.read(_MESSAGE_LIMIT).decode("utf-8", "replace")
        except OSError:
            message = ""
        policy = self.spec.get("terminationMessagePolicy")
        if not message and exit_code and policy == "FallbackToLogsOnError":
            message = tail_of(instance.log, _FALLBACK_LINES, _FALLBACK_LIMIT)
        return message

    def _tidy(self, instance: Instance) -> None:
        """Keep the log of this instance and the one before, nothing older."""
        for known in instances_of(self._directory):
            if known.number < instance.number - 1:
                known.remove()
        with contextlib.suppress(OSError):
            remove_links(instance.launch().links)

    # -- small things --------------------------------------------------------------------------

    def _since(self, instance: Instance) -> str:
        end = instance.exit()
        return _to_second(end.started_at if end is not None else instance.started_at())

    def _reference(self) -> dict[str, Any]:
        kind = "containers" if self.role == "main" else "initContainers"
        return self._pod.reference(f"spec.{kind}{{{self.name}}}")

    def _event(self, kind: str, reason: str, message: str) -> None:
        self._pod.events.event(self._reference(), kind, reason, message)


def _to_second(text: str) -> str:
    """RFC 3339 without fractions, as in API objects."""
    return text.partition(".")[0].removesuffix("Z") + "Z" if text else ""


def _epoch(text: str) -> float:
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def _seconds(start: str, end: str) -> float:
    return _epoch(end) - _epoch(start) if start and end else 0.0
