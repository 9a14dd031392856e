"""One job for the page: its model, the lives of its pods, their logs, metrics and events."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from traincrew.cli.display.metrics import MetricReader
from traincrew.cli.display.objects import Workload
from traincrew.cli.display.text import clean, moment
from traincrew.cli.jobview import model
from traincrew.cli.jobview.objects import Job
from traincrew.cli.page.feed import Feed, problem_of
from traincrew.cli.page.lives import Life, lived
from traincrew.cli.page.objects import Event, Pod
from traincrew.cli.page.series import Recorder
from traincrew.cli.watching.follow import LogFollower, split_stamp
from traincrew.engine.cache import Informer
from traincrew.engine.resources import EVENTS, JOBS, PODS, STATEFUL_SETS

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.cli.watching.kinds import Served
    from traincrew.engine.client import Client

__all__ = ["JobFeed", "LogLine", "PodRow", "Said"]

MOST_LINES = 5000
"""Log lines that are kept for browsers that open the page later."""
LONGEST_LINE = 4096
FIRST_LINES = 20_000
"""Lines of a log that exists already with which to begin."""
MOST_LOGS = 64
"""Logs that are followed at the same time; each is a connection to the API server."""
MOST_PODS = 3000
"""Pods that are remembered, those that are gone included."""
MOST_EVENTS = 300
REPORTED = "reported"
"""Source of the metrics that the job's status has."""
_GONE = "deleted"


class LogLine(Struct, frozen=True, array_like=True):
    """A line of a log: when (seconds since 1970), which pod, what."""

    at: float
    pod: str
    text: str


class Said(Struct, frozen=True, rename="camel"):
    """An event of the cluster about the job, its pods or children."""

    at: str
    kind: str
    about: str
    reason: str
    message: str
    count: int


class PodRow(Struct, frozen=True, rename="camel"):
    """A pod of the page: its model, the role it has, and its life."""

    role: str
    pod: model.PodView
    life: Life


class _Known(NamedTuple):
    pod: Pod
    life: Life
    gone: bool


class JobFeed(Feed):
    """Watches one job.

    Args:
        client: The API server.
        served: Its kind.
        namespace: Its namespace.
        name: Its name.
    """

    def __init__(self, client: Client, served: Served, namespace: str, name: str) -> None:
        super().__init__()
        self._client = client
        self._served = served
        self._namespace = namespace
        self._name = name
        self.exists: bool | None = None
        """Whether the job exists; None until that is known."""
        self.problems: dict[str, str] = {}
        self.recorder = Recorder()
        self.lines: deque[LogLine] = deque(maxlen=MOST_LINES)
        self.line_count = 0
        """How many lines there have been."""
        self.unfollowed = 0
        """Logs that are not followed because there are too many."""
        self.version = 0
        self._job: Job | None = None
        self._pods: dict[str, _Known] = {}
        self._ages: dict[str, int] = {}
        self._workloads: dict[str, Workload] = {}
        self._desired: int | None = None
        self._phase = ""
        self._reported_at = ""
        self._followers: dict[tuple[str, str], tuple[LogFollower, asyncio.Task[None]]] = {}
        self._events: Informer[Any]
        self._view: tuple[int, model.JobView | None] = (-1, None)
        self._rows: tuple[int, dict[str, PodRow]] = (-1, {})

    async def run(self) -> None:
        """Watch until cancelled."""
        labels = self._served.selector_of(self._name)
        jobs = self._informer(
            self._served.resource, Job, self._job_changed, fields=f"metadata.name={self._name}"
        )
        pods = self._informer(PODS, Pod, self._pod_changed, labels=labels)
        self._events = self._informer(EVENTS, Event, self._event_changed)
        children = [
            self._informer(each, Workload, self._workload_changed, labels=labels)
            for each in (JOBS, STATEFUL_SETS)
        ]
        try:
            async with asyncio.TaskGroup() as tasks:
                for informer in (jobs, pods, self._events, *children):
                    tasks.create_task(informer.run())
                await jobs.wait_synced()
                if self._job is None:
                    self.exists = False
                    self._next()
        finally:
            followers = [task for _, task in self._followers.values()]
            for task in followers:
                task.cancel()
            await asyncio.gather(*followers, return_exceptions=True)

    def _informer(
        self,
        resource: Any,
        view: type[Any],
        handler: Callable[[Any, Any], None],
        *,
        labels: str | None = None,
        fields: str | None = None,
    ) -> Informer[Any]:
        def state(error: Exception | None) -> None:
            text = problem_of(error, resource, self._namespace)
            if text != self.problems.get(resource.plural, ""):
                self.problems[resource.plural] = text
                self._next()

        informer: Informer[Any] = Informer(
            self._client,
            resource,
            view,
            namespace=self._namespace,
            label_selector=labels,
            field_selector=fields,
            on_state=state,
        )
        informer.add_handler(handler)
        return informer

    def _next(self) -> None:
        self.version += 1
        self.changed()

    # -- what is shown ----------------------------------------------------------------------------

    @property
    def view(self) -> model.JobView | None:
        """The model of the job, of the pods that exist; None while there is no job."""
        if self._view[0] != self.version:
            view = None
            if self._job is not None:
                pods = [known.pod for known in self._pods.values() if not known.gone]
                view = model.view(
                    self._served.kind,
                    self._job,
                    pods,
                    self._events.store.list(),
                    self._workloads.values(),
                )
            self._view = self.version, view
        return self._view[1]

    @property
    def rows(self) -> dict[str, PodRow]:
        """All pods, those that are gone included, by UID."""
        if self._rows[0] != self.version and self._job is not None:
            pods = [known.pod for known in self._pods.values()]
            roles = model.view(self._served.kind, self._job, pods).roles
            self._rows = (
                self.version,
                {pod.uid: self._row(role.name, pod) for role in roles for pod in role.pods},
            )
        return self._rows[1]

    def _row(self, role: str, pod: model.PodView) -> PodRow:
        known = self._pods[pod.uid]
        if known.gone:
            from msgspec import structs

            pod = structs.replace(pod, state=_GONE, tone="plain", ready=False, detail=pod.state)
        return PodRow(role, pod, known.life)

    def said(self) -> list[Said]:
        """Return the events about the job, its pods and children, in the order of time."""
        if self._job is None:
            return []
        pods = [known.pod for known in self._pods.values()]
        about = model.about(self._job, pods, self._workloads.values())
        found = [
            Said(
                at=event.at,
                kind=event.type,
                about=f"{event.involved_object.kind} {model.one_line(event.involved_object.name)}",
                reason=model.one_line(event.reason),
                message=model.one_line(event.message),
                count=event.count or 1,
            )
            for event in self._events.store.list()
            if about.covers(event)
        ]
        found.sort(key=lambda each: each.at)
        return found[-MOST_EVENTS:]

    # -- what the watches report ------------------------------------------------------------------

    def _job_changed(self, _old: Job | None, new: Job | None) -> None:
        self.exists = new is not None
        if new is not None:
            self._note_changes(new)
            self._job = new
        self._next()

    def _note_changes(self, job: Job) -> None:
        """Mark in the curves that the job was scaled, or has another phase."""
        desired = sum(self._served.kind.roles(job.spec).values())
        if self._desired is not None and desired != self._desired:
            self.recorder.mark(time.time(), f"{self._desired} → {desired} pods")
        self._desired = desired
        phase = model.one_line(job.status.phase)
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
                    self.recorder.add(model.one_line(metric.name), REPORTED, at, value)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        uid = pod.metadata.uid
        before = self._pods.get(uid)
        gone_at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if new is None else None
        life = lived(pod, before.life if before else None, gone_at)
        self._pods[uid] = _Known(pod, life, new is None)
        if len(self._pods) > MOST_PODS:
            self._forget_one()
        if before is None and self._job is not None:
            self._mark_attempt(pod)
        self._follow(pod, gone=new is None)
        self._next()

    def _forget_one(self) -> None:
        gone = next((uid for uid, known in self._pods.items() if known.gone), None)
        if gone is not None:
            del self._pods[gone]

    def _mark_attempt(self, pod: Pod) -> None:
        place = self._served.kind.place(pod.metadata.labels)
        same = sum(
            self._served.kind.place(known.pod.metadata.labels) == place
            for known in self._pods.values()
        )
        if same > 1:
            at = moment(pod.metadata.creation_timestamp)
            when = at.timestamp() if at is not None else time.time()
            self.recorder.mark(when, f"{place.role} {place.rank}: attempt {same}")

    def _event_changed(self, _old: Event | None, _new: Event | None) -> None:
        self._next()

    def _workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        if new is not None:
            self._workloads[new.metadata.uid] = new
        elif old is not None:
            self._workloads.pop(old.metadata.uid, None)
        self._next()

    # -- logs -------------------------------------------------------------------------------------

    def _follow(self, pod: Pod, *, gone: bool) -> None:
        uid = pod.metadata.uid
        for container in pod.spec.containers:
            key = (uid, container.name)
            if key in self._followers or gone:
                continue
            running = sum(not task.done() for _, task in self._followers.values())
            if running >= MOST_LOGS:
                self.unfollowed += 1
                continue
            self._start_following(pod, container.name)
        for (other, _), (follower, _) in self._followers.items():
            if other == uid:
                follower.update(pod, gone=gone)

    def _start_following(self, pod: Pod, container: str) -> None:
        name = pod.metadata.name
        several = len(pod.spec.containers) > 1
        source = f"{name}/{container}" if several else name
        reader = MetricReader()

        def deliver(line: str) -> None:
            self._take_line(source, reader, line)

        follower = LogFollower(
            self._client, pod, container, deliver, tail=FIRST_LINES, timestamps=True
        )
        task = asyncio.create_task(follower.run(), name=f"logs {source}")
        self._followers[pod.metadata.uid, container] = follower, task

    def _take_line(self, source: str, reader: MetricReader, line: str) -> None:
        stamp, text = split_stamp(line.encode())
        at = _seconds(stamp)
        shown = clean(text.decode(errors="replace")[:LONGEST_LINE], colour=False)
        if shown is None:
            return
        self.lines.append(LogLine(round(at, 3), source, shown))
        self.line_count += 1
        reading = reader.read(shown)
        if reading is not None:
            for metric, value in reading.metrics.items():
                self.recorder.add(metric, source, at, value)
            if reading.done is not None:
                self.recorder.add("done", source, at, reading.done)
        self.changed()


def _seconds(stamp: tuple[str, str] | None) -> float:
    """Return the time of a log line in seconds since 1970; now if it has none."""
    then = moment(f"{stamp[0]}Z") if stamp is not None else None
    if then is None or stamp is None:
        return time.time()
    return then.timestamp() + int(stamp[1]) / 1e9
