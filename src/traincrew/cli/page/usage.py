"""What the pods of a job use over time, bounded, and measured only while somebody looks.

A cluster says what pods use now, and nothing of before. So the curves begin when the page of the
job is opened. All pods are measured by one request, and share the times.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from array import array
from typing import TYPE_CHECKING, Any

import msgspec

from traincrew.cli.display.text import plain
from traincrew.cli.page.feed import Message
from traincrew.cli.watching.podmetrics import POD_METRICS, Amounts, limits_of, used_by
from traincrew.cli.watching.rights import missing_right
from traincrew.engine.errors import (
    ApiError,
    BadAnswerError,
    ForbiddenError,
    NotFoundError,
    UnreachableError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from traincrew.cli.watching.jobwatch import Scope
    from traincrew.engine.client import Client

__all__ = ["UsageCursor", "UsageMeter", "UsageRecorder"]

INTERVAL_SECONDS = 5.0
"""Between two requests. metrics-server has new values each 15 s, the embedded cluster always."""
STARTING_SECONDS = 1.0
"""The same while no pod runs; nothing is asked for then."""
REFUSED_SECONDS = 60.0
"""The same while nothing serves it, or a right is missing: somebody may mend that."""
MOST_TIMES = 80
"""Points of a curve; beyond it every second one goes, and half as many are kept from then on."""
NOT_MEASURED = -1
"""In place of a value: the pod did not run yet, or not any more."""
NOT_SERVED = (
    "CPU and memory are not shown: this cluster does not serve metrics.k8s.io"
    " (metrics-server does; kubectl top needs it as well)."
)


class UsageRecorder:
    """What pods use over time.

    Attributes:
        times: When it was measured, in seconds since 1970.
        pods: Of each pod, by UID, its processors (thousandths) and memory (KiB) at these times.
        latest: What was measured last, by UID; it need not be one of those that are kept.
        limits: The limits of each pod.
        problem: Why nothing is measured; empty if something is.
        version: Number of the last change.
        rewritten: The version of the last change that did more than add a measurement.
        at: When it was measured last, in seconds since 1970.
        kept: Whether that is one of `times`.
    """

    def __init__(self) -> None:
        self.times: list[float] = []
        self.pods: dict[str, tuple[array[int], array[int]]] = {}
        self.latest: dict[str, Amounts] = {}
        self.limits: dict[str, Amounts] = {}
        self.problem = ""
        self.version = 0
        self.rewritten = 0
        self.at = 0.0
        self.kept = False
        self._stride = 1
        self._skipped = 0

    def add(self, at: float, used: Mapping[str, Amounts]) -> None:
        """Record what pods use.

        Args:
            at: When, in seconds since 1970.
            used: By UID.
        """
        self.version += 1
        self.latest = dict(used)
        self.at = round(at, 1)
        self._skipped += 1
        self.kept = self._skipped >= self._stride
        if not self.kept:
            return
        self._skipped = 0
        for uid in used.keys() - self.pods.keys():
            empty = [NOT_MEASURED] * len(self.times)
            self.pods[uid] = array("q", empty), array("q", empty)
        self.times.append(self.at)
        for uid, curves in self.pods.items():
            for curve, value in zip(curves, used.get(uid, (None, None)), strict=True):
                curve.append(NOT_MEASURED if value is None else value)
        if len(self.times) > MOST_TIMES:
            self._thin()

    def say(self, problem: str) -> None:
        """Record why nothing is measured; an empty text if something is."""
        if problem != self.problem:
            self.problem = problem
            self._rewrite()

    def limit(self, limits: Mapping[str, Amounts]) -> None:
        """Record the limits of pods."""
        self.limits = dict(limits)
        self._rewrite()

    def none_runs(self) -> None:
        """Take note that no pod runs (any more)."""
        self.latest = {}
        self._rewrite()

    def forget(self, uid: str) -> None:
        """Forget a pod."""
        self.pods.pop(uid, None)
        self.latest.pop(uid, None)
        self.limits.pop(uid, None)

    def _rewrite(self) -> None:
        self.version += 1
        self.rewritten = self.version

    def _thin(self) -> None:
        del self.times[1::2]
        for curves in self.pods.values():
            for curve in curves:
                del curve[1::2]
        self._stride *= 2
        self.rewritten = self.version


class _All(msgspec.Struct, frozen=True):
    """All that is known."""

    times: list[float]
    pods: dict[str, tuple[list[int], list[int]]]
    latest: dict[str, Amounts]
    limits: dict[str, Amounts]
    problem: str


class _Next(msgspec.Struct, frozen=True):
    """One measurement: when, what, and whether it is one of those that are kept."""

    at: float
    kept: bool
    latest: dict[str, Amounts]


class UsageCursor:
    """How far one browser is with what pods use."""

    def __init__(self, recorder: UsageRecorder) -> None:
        self._recorder = recorder
        self._version = 0

    def collect(self) -> list[Message]:
        """Return what has changed since the last call."""
        recorder, before = self._recorder, self._version
        if recorder.version == before:
            return []
        self._version = recorder.version
        if before and before == recorder.version - 1 and recorder.rewritten <= before:
            return [Message("used", _Next(recorder.at, recorder.kept, recorder.latest))]
        pods = {
            uid: (cpu.tolist(), memory.tolist()) for uid, (cpu, memory) in recorder.pods.items()
        }
        content: Any = _All(
            recorder.times, pods, recorder.latest, recorder.limits, recorder.problem
        )
        return [Message("usage", content)]


class UsageMeter:
    """Measures the pods of a job while somebody looks at it.

    Args:
        client: The API server.
        scope: Namespace and labels of the pods.
        running: Returns the UIDs of the pods that run, by name.
        looked_at: Returns whether somebody looks at the job.
        changed: Called when there is something new.
    """

    def __init__(
        self,
        client: Client,
        scope: Scope,
        running: Callable[[], Mapping[str, str]],
        looked_at: Callable[[], bool],
        changed: Callable[[], None],
    ) -> None:
        self._client = client
        self._scope = scope
        self._running = running
        self._looked_at = looked_at
        self._changed = changed
        self._wake = asyncio.Event()
        self._times: dict[str, str] = {}
        self.recorder = UsageRecorder()

    def wake(self) -> None:
        """Take note that somebody looks at the job."""
        self._wake.set()

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            await self._wake.wait()
            if self._looked_at():
                await asyncio.sleep(await self._measure())
            else:
                self._wake.clear()

    async def _measure(self) -> float:
        """Ask once; return after how many seconds to ask again."""
        recorder = self.recorder
        if not self._running():
            if recorder.latest:
                recorder.none_runs()
                self._changed()
            return STARTING_SECONDS
        try:
            measured = await used_by(self._client, self._scope)
        except NotFoundError:
            recorder.say(NOT_SERVED)
        except ForbiddenError as error:
            right = missing_right("list", POD_METRICS, self._scope.namespace, error=error)
            recorder.say(f"CPU and memory are not shown: {right}")
        except UnreachableError:  # the watches of the job say it
            return INTERVAL_SECONDS
        except (ApiError, BadAnswerError, msgspec.DecodeError) as error:
            recorder.say(f"CPU and memory: trying again: {plain(str(error))}")
        else:
            recorder.say("")
            self._record(measured)
            await self._read_limits()
            self._changed()
            return INTERVAL_SECONDS
        self._changed()
        return REFUSED_SECONDS

    def _record(self, measured: Mapping[str, tuple[str, Amounts]]) -> None:
        """Record a measurement, unless it is the one that was recorded last."""
        uids = self._running()
        used = {uids[name]: amounts for name, (_, amounts) in measured.items() if name in uids}
        times = {name: at for name, (at, _) in measured.items() if name in uids}
        if times != self._times:
            self._times = times
            self.recorder.add(time.time(), used)

    async def _read_limits(self) -> None:
        """Read the limits of pods when one of them is new."""
        recorder = self.recorder
        new = recorder.latest.keys() - recorder.limits.keys()
        if new:
            with contextlib.suppress(ApiError, BadAnswerError, msgspec.DecodeError):
                limits = await limits_of(self._client, self._scope)
                unlimited = dict.fromkeys(new, Amounts(None, None))
                recorder.limit(recorder.limits | unlimited | limits)
