"""One running instance of a container: its probes and hooks, and its termination."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from traincrew.local.node.containers.handlers import Target, act
from traincrew.local.node.containers.memoryfiles import memory_limit
from traincrew.local.node.containers.probes import Prober

if TYPE_CHECKING:
    from traincrew.local.node.runtime.instances import Exit
    from traincrew.local.node.runtime.memory import MemoryFiles, MemoryUse, MemoryWatch

__all__ = ["Reports", "Running"]

Document = Mapping[str, Any]


class Reports(Struct, frozen=True):
    """Callbacks of a running instance.

    Attributes:
        started: it is running, and its startup probe has succeeded.
        ready: the result of the readiness probe has changed.
        event: (type, reason, message) of an event.
    """

    started: Callable[[], None]
    ready: Callable[[bool], None]
    event: Callable[[str, str, str], None]


class Running:
    """Supervises an instance until it ends.

    Args:
        target: The instance and its container.
        memory: Enforces the memory limit.
        files: What it shares in memory with its pod.
        grace: Seconds between SIGTERM and SIGKILL when a probe or hook terminates it.
        reports: The callbacks.
    """

    def __init__(
        self,
        target: Target,
        memory: MemoryWatch,
        files: MemoryFiles,
        grace: float,
        reports: Reports,
    ) -> None:
        self.instance = target.instance
        self._target = target
        self._spec = target.container
        self._name = str(self._spec["name"])
        self._memory = memory
        self._files = files
        self._grace = grace
        self._reports = reports
        self._kill_at = 0.0
        self._sooner = asyncio.Event()
        self._ending: asyncio.Task[None] | None = None

    async def supervise(self, *, adopted: bool) -> Exit:
        """Run its hooks and probes and wait for its end.

        Args:
            adopted: It was running before this node started, so its `postStart` hook has run.
        """
        self._watch_memory()
        health = asyncio.create_task(self._keep_healthy(adopted=adopted))
        try:
            end = await self.instance.wait()
            if memory_limit(self._spec):
                await self._memory.check_end(self.instance)
                end = self.instance.exit() or end
            return end
        finally:
            self._memory.forget(self.instance)
            tasks = [health, *([self._ending] if self._ending is not None else [])]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep_healthy(self, *, adopted: bool) -> None:
        hook = (self._spec.get("lifecycle") or {}).get("postStart")
        if hook is not None and not adopted:
            passed, output = await act(self._target, hook, None)
            if not passed:
                self._reports.event(
                    "Warning", "FailedPostStartHook", f"PostStartHook failed: {output.strip()}"
                )
                self.end_for("FailedPostStartHook", self._grace)
                return
        prober = Prober(
            self._target,
            on_started=self._reports.started,
            on_ready=self._reports.ready,
            on_unhealthy=lambda kind, output: self._reports.event(
                "Warning", "Unhealthy", f"{kind} probe failed: {output.strip()}"
            ),
            on_dead=self._on_dead,
        )
        await prober.run()

    def _on_dead(self, kind: str, probe: Document) -> None:
        grace = probe.get("terminationGracePeriodSeconds")
        text = f"Container {self._name} failed {kind.lower()} probe, will be restarted"
        self.end_for(text, self._grace if grace is None else float(grace))

    def _watch_memory(self) -> None:
        if limit := memory_limit(self._spec):
            self._memory.watch(self.instance, limit, self._out_of_memory, self._files)

    def resize(self, container: Document, files: MemoryFiles) -> None:
        """Apply the memory limit of a new version of its container."""
        self._spec, self._files = container, files
        self._watch_memory()

    def end_for(self, text: str, grace: float) -> None:
        """Terminate it, so that it is restarted, and say why."""
        self._reports.event("Normal", "Killing", text)
        self.stop(grace)

    def _out_of_memory(self, use: MemoryUse) -> None:
        limit = self._spec["resources"]["limits"]["memory"]
        files = "; files that it writes outside of volumes on disk are in memory"
        size = f"{use.used >> 20} MiB of memory" if use.used else "too much memory"
        text = f"Container {self._name} used {size}, its limit is {limit}"
        text += files if use.files else ""
        self._reports.event("Warning", "OOMKilling", text)

    def stop(self, grace: float) -> None:
        """Terminate it within `grace` seconds; a later call may shorten the period."""
        kill_at = time.monotonic() + grace
        if self._ending is None:
            self._kill_at = kill_at
            self._ending = asyncio.create_task(self._end())
        elif kill_at < self._kill_at:
            self._kill_at = kill_at
            self._sooner.set()

    async def _end(self) -> None:
        """Run `preStop`, then send the stop signal and SIGKILL; upstream: `killContainer`."""
        hook = (self._spec.get("lifecycle") or {}).get("preStop")
        if hook is not None and self._left() > 0:
            await self._prepare_to_stop(hook)
        if self._left() > 0:
            self.instance.terminate()
            await self._until_kill_time(None)
        self.instance.kill()

    async def _prepare_to_stop(self, hook: Document) -> None:
        task = asyncio.create_task(act(self._target, hook, None))
        try:
            await self._until_kill_time(task)
            if task.done() and not task.result()[0]:
                text = f"PreStopHook failed: {task.result()[1].strip()}"
                self._reports.event("Warning", "FailedPreStopHook", text)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _left(self) -> float:
        return self._kill_at - time.monotonic()

    async def _until_kill_time(self, task: asyncio.Task[Any] | None) -> None:
        """Wait for a task or for the kill time, which may be moved forward meanwhile."""
        while (left := self._left()) > 0 and not (task is not None and task.done()):
            self._sooner.clear()
            sooner = asyncio.ensure_future(self._sooner.wait())
            waiting: set[asyncio.Future[Any]] = {sooner}
            if task is not None:
                waiting.add(task)
            try:
                await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            finally:
                sooner.cancel()
