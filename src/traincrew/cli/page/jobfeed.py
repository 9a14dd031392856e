"""One job for the page: its model, the lives of its pods, their logs, metrics and events."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import math
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from traincrew.cli.display import states
from traincrew.cli.display.text import moment, one_line
from traincrew.cli.jobview import model
from traincrew.cli.jobview.attention import Attention, attention, sign_of
from traincrew.cli.jobview.events import event_filter
from traincrew.cli.jobview.jobstate import job_state
from traincrew.cli.jobview.pods import KnownPod, explaining, known
from traincrew.cli.page.feed import Feed, problem_of
from traincrew.cli.page.logs import JobLogs
from traincrew.cli.page.marks import marks_of_joined, marks_of_runs
from traincrew.cli.page.podhistory import PodHistory, pod_history
from traincrew.cli.page.series import Recorder
from traincrew.cli.page.usage import UsageMeter
from traincrew.cli.watching.jobwatch import JobWatch, stored
from traincrew.cli.watching.kinds import scope_of
from traincrew.engine.times import format_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traincrew.cli.display.objects import Job, Pod
    from traincrew.cli.watching.kinds import Served
    from traincrew.engine.cache import Informer
    from traincrew.engine.client import Client

__all__ = ["EventRow", "Head", "JobFeed", "PodRow", "RoleCount"]

DERIVE_SECONDS = 0.1
"""Shortest time between two derivations of what is shown."""
DERIVE_SHARE = 0.2
"""Share of the time that may be spent on it: a large job is shown a little later."""
MOST_PODS = 3000
"""Pods that are remembered, those that are gone included."""
MOST_EVENTS = 300
REPORTED = "reported"
"""Source of the metrics that the job's status has."""


class EventRow(Struct, frozen=True, rename="camel"):
    """An event of the cluster about the job, its pods or children."""

    at: str
    kind: str
    about: str
    reason: str
    message: str
    count: int


class PodRow(Struct, frozen=True, rename="camel"):
    """A pod of the page: its model, role, life, how soon to look at it, and its sign."""

    role: str
    pod: model.PodView
    life: PodHistory
    level: Attention
    sign: str


class RoleCount(Struct, frozen=True):
    """How many pods a role has and should have."""

    name: str
    desired: int
    ready: int


class Head(Struct, frozen=True):
    """What is shown of the job itself."""

    job: model.JobSummary
    sign: str
    exists: bool | None
    progress: model.Reported | None
    conditions: tuple[model.Condition, ...]
    roles: list[RoleCount]
    problems: list[str]
    unfollowed: int


class _Kept(NamedTuple):
    known: KnownPod
    life: PodHistory


class JobFeed(Feed):
    """Watches one job.

    What is shown is derived from what the watches report: at most once in `DERIVE_SECONDS`, however
    much changes meanwhile and however many browsers read it.

    Args:
        client: The API server.
        served: Its kind.
        namespace: Its namespace.
        name: Its name.
        last: Its last state, of a job that was deleted before anybody has opened it.

    Attributes:
        exists: Whether the job exists; None until that is known.
        head: What is shown of the job; None while there is none.
        rows: All pods, those that are gone included, by UID, each with the version of its last
            change.
        events: Events about the job, its pods and children, in the order of time.
        version: Number of the derivation.
        recorder: Its metrics.
        logs: Its logs.
        usage: What its pods use.
    """

    def __init__(
        self,
        client: Client,
        served: Served,
        namespace: str,
        name: str,
        *,
        last: model.JobSummary | None = None,
    ) -> None:
        super().__init__()
        self._served = served
        self._last = last
        self.exists: bool | None = None
        self.head: Head | None = None
        self.rows: dict[str, tuple[int, PodRow]] = {}
        self.events: list[EventRow] = []
        self.version = 0
        self.recorder = Recorder()
        self.logs = JobLogs(client, self.recorder, self._logs_changed)
        self._problems: dict[str, str] = {}
        self._job: Job | None = None
        self._pods: dict[str, _Kept] = {}
        self._desired: int | None = None
        self._phase = ""
        self._reported_at = ""
        scope = scope_of(served, namespace, name)
        self.usage = UsageMeter(client, scope, self._running, self._is_looked_at, self.changed)
        self._watch = JobWatch(client, [(served.resource, scope)], self._watch_state)
        self._watch.add_handlers(
            job=self._job_changed,
            child=self._around_changed,
            pod=self._pod_changed,
            event=self._around_changed,
        )
        self._events_stale = False
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    @property
    def problems(self) -> list[str]:
        """What keeps something from being shown."""
        return sorted({text for text in self._problems.values() if text})

    @property
    def was_deleted(self) -> bool:
        """Whether the job existed, and does not any more."""
        return self.exists is False and self.head is not None

    async def run(self) -> None:
        """Watch until cancelled."""
        (jobs,) = self._watch.jobs
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._watch.run())
                tasks.create_task(self.usage.run())
                await jobs.wait_synced()
                if self._job is None:
                    self.exists = False
                    self._derive_soon()
        finally:
            if self._timer is not None:
                self._timer.cancel()
            await self.logs.stop()

    def subscribe(self, event: asyncio.Event | None = None) -> asyncio.Event:
        """Return an event that is set now, and whenever something changes."""
        self.usage.wake()
        return super().subscribe(event)

    def _is_looked_at(self) -> bool:
        return self.subscribers > 0

    def _running(self) -> dict[str, str]:
        """Return the UIDs of the pods that run, by name."""
        return {
            pod.metadata.name: uid
            for uid, ((pod, _, _, gone), _) in self._pods.items()
            if not gone and pod.status.phase == "Running"
        }

    def _watch_state(self, informer: Informer[Any], error: Exception | None) -> None:
        text = problem_of(error, informer.resource, informer.namespace)
        if text != self._problems.get(informer.resource.plural, ""):
            self._problems[informer.resource.plural] = text
            self._derive_soon()

    # -- what is shown ----------------------------------------------------------------------------

    def _derive_soon(self) -> None:
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(0.0, self._due - loop.time()), self._derive)

    def _derive(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        began = loop.time()
        self.version += 1
        if self._job is not None:
            self._derive_job(self._job)
        elif self.exists is False and self._last is not None:
            self.head = self._head_of(self._last)
        self.changed()
        now = loop.time()
        self._due = now + max(DERIVE_SECONDS, (now - began) / DERIVE_SHARE)

    def _derive_job(self, job: Job) -> None:
        pods = [kept.known for kept in self._pods.values()]
        view = model.view(self._served.kind, job, pods)
        failed = job.status.end == "Failed"
        first = explaining(self._served.kind, job, pods) if failed else None
        rows = {}
        for role in view.roles:
            for pod in role.pods:
                explains = first is not None and pod.uid == first.pod.metadata.uid
                row = self._row(role.name, pod, explains=explains)
                before = self.rows.get(pod.uid)
                if before is None:
                    self._mark_attempt(role.name, pod)
                runs = before[1].life.runs if before is not None else ()
                for when, text in marks_of_runs(f"{role.name} {pod.rank}", row.life.runs, runs):
                    self._mark(when, text)
                same = before is not None and before[1] == row
                rows[pod.uid] = before if before is not None and same else (self.version, row)
        roles = [RoleCount(role.name, role.desired, role.ready) for role in view.roles]
        if self.head is None:
            lives = [(row.role, row.life) for _, row in rows.values() if row.pod.attempt == 1]
            for when, text in marks_of_joined(lives):
                self._mark(when, text)
        self.rows = rows
        self.head = self._head_of(
            view.job, progress=view.progress, conditions=view.conditions, roles=roles
        )
        if self._events_stale:
            self._events_stale = False
            self.events = self._derive_events(job)

    def _head_of(
        self,
        job: model.JobSummary,
        *,
        progress: model.Reported | None = None,
        conditions: tuple[model.Condition, ...] = (),
        roles: Sequence[RoleCount] = (),
    ) -> Head:
        state = job_state(self._job) if self.exists and self._job is not None else None
        return Head(
            job=job,
            sign=(state.sign if state is not None else states.PHASES[states.GONE].sign).name,
            exists=self.exists,
            progress=progress,
            conditions=conditions,
            roles=list(roles),
            problems=self.problems,
            unfollowed=self.logs.unfollowed,
        )

    def _row(self, role: str, pod: model.PodView, *, explains: bool) -> PodRow:
        kept = self._pods[pod.uid]
        level = attention(pod, gone=kept.known.gone, explains=explains)
        return PodRow(role, pod, kept.life, level, sign_of(pod).name)

    def _derive_events(self, job: Job) -> list[EventRow]:
        pods = [kept.known.pod for kept in self._pods.values()]
        about = event_filter(job, pods, stored(self._watch.children))
        covered = (event for event in stored(self._watch.events) if about.covers(event))
        newest = heapq.nlargest(MOST_EVENTS, covered, key=lambda event: event.at)
        return [
            EventRow(
                at=event.at,
                kind=event.type,
                about=f"{event.involved_object.kind} {one_line(event.involved_object.name)}",
                reason=one_line(event.reason),
                message=one_line(event.message),
                count=event.count or 1,
            )
            for event in reversed(newest)
        ]

    # -- what the watches report ------------------------------------------------------------------

    def _job_changed(self, _old: Job | None, new: Job | None) -> None:
        self.exists = new is not None
        if new is not None:
            self._events_stale |= self._job is None
            self._note_changes(new)
            self._job = new
        self._derive_soon()

    def _note_changes(self, job: Job) -> None:
        """Mark in the curves that the job was scaled, or has another phase."""
        desired = sum(self._served.kind.roles(job.spec).values())
        if self._desired is not None and desired != self._desired:
            self.recorder.mark(time.time(), f"{self._desired} → {desired} pods")
        self._desired = desired
        phase = one_line(job.status.told_phase)
        if self._phase and phase != self._phase:
            self.recorder.mark(time.time(), phase)
        self._phase = phase
        self._note_report(job)

    def _note_report(self, job: Job) -> None:
        """Record what the program has reported; its values are texts, and need not be numbers."""
        progress = job.status.progress
        if progress is None or progress.last_update_time == self._reported_at:
            return
        self._reported_at = progress.last_update_time
        when = moment(progress.last_update_time)
        at = when.timestamp() if when is not None else time.time()
        for metric in progress.metrics:
            with contextlib.suppress(ValueError):
                value = float(metric.value)
                if math.isfinite(value):
                    self.recorder.add(one_line(metric.name), REPORTED, at, value)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        uid = pod.metadata.uid
        before = self._pods.get(uid)
        gone_at = format_time(datetime.now(UTC)) if new is None else None
        life = pod_history(pod, before.life if before else None, gone_at)
        seen = known(pod, before.known if before else None, gone=new is None)
        self._pods[uid] = _Kept(seen, life)
        if before is None:
            self._events_stale = True
            if len(self._pods) > MOST_PODS:
                self._forget_one()
        self.logs.update(pod, gone=new is None)
        self._derive_soon()

    def _forget_one(self) -> None:
        gone = next((uid for uid, kept in self._pods.items() if kept.known.gone), None)
        if gone is not None:
            del self._pods[gone]
            self.logs.forget(gone)
            self.usage.recorder.forget(gone)

    def _mark_attempt(self, role: str, pod: model.PodView) -> None:
        """Mark in the curves that a new pod is not the first one of its place."""
        if pod.attempt > 1:
            created = self._pods[pod.uid].life.created_at
            self._mark(created, f"{role} {pod.rank}: attempt {pod.attempt}")

    def _mark(self, when: str | None, text: str) -> None:
        at = moment(when or "")
        self.recorder.mark(at.timestamp() if at is not None else time.time(), text)

    def _around_changed(self, _old: object, _new: object) -> None:
        self._events_stale = True
        self._derive_soon()

    def _logs_changed(self) -> None:
        if self.head is not None and self.head.unfollowed != self.logs.unfollowed:
            self._derive_soon()
        self.changed()
