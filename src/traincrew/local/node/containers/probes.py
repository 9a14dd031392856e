"""Startup, readiness and liveness probes of a running container. Upstream: `prober/worker.go`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from traincrew.local.node.containers.handlers import act

if TYPE_CHECKING:
    from traincrew.local.node.containers.handlers import Target

__all__ = ["Prober"]

Document = Mapping[str, Any]


class Prober:
    """Runs the probes of one instance.

    Args:
        target: The container.
        on_started: The startup probe has succeeded, or there is none.
        on_ready: The result of the readiness probe has changed.
        on_unhealthy: (kind of probe, output): a probe has failed once; for an event.
        on_dead: (kind of probe, its specification): the startup or liveness probe has reached its
            failure threshold. Called once; probing ends.
    """

    def __init__(
        self,
        target: Target,
        *,
        on_started: Callable[[], None],
        on_ready: Callable[[bool], None],
        on_unhealthy: Callable[[str, str], None],
        on_dead: Callable[[str, Document], None],
    ) -> None:
        self._target = target
        self._on_started = on_started
        self._on_ready = on_ready
        self._on_unhealthy = on_unhealthy
        self._on_dead = on_dead

    async def run(self) -> None:
        """Probe until cancelled or until a probe has failed for good."""
        container = self._target.container
        if (startup := container.get("startupProbe")) is not None:
            await self._until(startup, "Startup", wanted=True)
        self._on_started()
        async with asyncio.TaskGroup() as group:
            if (readiness := container.get("readinessProbe")) is not None:
                group.create_task(self._readiness(readiness))
            else:
                self._on_ready(True)
            if (liveness := container.get("livenessProbe")) is not None:
                group.create_task(self._until(liveness, "Liveness", wanted=False))

    async def _readiness(self, probe: Document) -> None:
        await asyncio.sleep(_number(probe, "initialDelaySeconds", 0))
        ready = False
        successes = failures = 0
        while True:
            if await self._once(probe, "Readiness"):
                successes, failures = successes + 1, 0
                if not ready and successes >= _number(probe, "successThreshold", 1):
                    ready = True
                    self._on_ready(True)
            else:
                successes, failures = 0, failures + 1
                if ready and failures >= _number(probe, "failureThreshold", 3):
                    ready = False
                    self._on_ready(False)
            await asyncio.sleep(_number(probe, "periodSeconds", 10))

    async def _until(self, probe: Document, kind: str, *, wanted: bool) -> None:
        """Probe until the success threshold (if `wanted`) or the failure threshold is reached."""
        await asyncio.sleep(_number(probe, "initialDelaySeconds", 0))
        successes = failures = 0
        while True:
            if await self._once(probe, kind):
                successes, failures = successes + 1, 0
                if wanted and successes >= _number(probe, "successThreshold", 1):
                    return
            else:
                successes, failures = 0, failures + 1
                if failures >= _number(probe, "failureThreshold", 3):
                    self._on_dead(kind, probe)
                    # The container is about to end, and this task with it.
                    await asyncio.Event().wait()
            await asyncio.sleep(_number(probe, "periodSeconds", 10))

    async def _once(self, probe: Document, kind: str) -> bool:
        passed, output = await act(self._target, probe, _number(probe, "timeoutSeconds", 1))
        if not passed:
            self._on_unhealthy(kind, output)
        return passed


def _number(probe: Document, field: str, default: float) -> float:
    value = probe.get(field)
    return default if value is None else float(value)
