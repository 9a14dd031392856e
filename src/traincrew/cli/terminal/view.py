"""Converts observed objects and log lines to lines of text.

Nothing here uses a clock, a socket or a terminal: times are arguments, in seconds since the start,
and the results are `Line`s that `traincrew.cli.display.console` writes. The same events result in
the same lines on a terminal and in a file.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING

from traincrew.cli.display import states
from traincrew.cli.display.lines import Line
from traincrew.cli.display.metrics import MetricReader, merged
from traincrew.cli.display.quiet import silence_of
from traincrew.cli.display.repeats import RepeatFilter
from traincrew.cli.display.rows import GAP
from traincrew.cli.display.text import clean, one_line
from traincrew.cli.jobview.events import Warned
from traincrew.cli.jobview.failures import missing_script
from traincrew.cli.jobview.pods import explaining, is_running, kind_of, known
from traincrew.cli.terminal.progressline import progress_line
from traincrew.cli.terminal.records import JobRecord, PodRecord
from traincrew.engine.objects import controller_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.cli.display.metrics import Reading
    from traincrew.cli.display.objects import Event, Job, Pod, Workload
    from traincrew.cli.display.quiet import Silence
    from traincrew.cli.jobview.jobstate import JobState

TAIL_LINES = 150
"""Number of log lines kept per container, to show them again if it fails.

More than are shown, because a launcher's report may follow the program's own output.
"""

# The kubelet's second event about a waiting container; the first one contains the reason.
_UNSPECIFIC = re.compile(r"Error: \w+")
_WAITING = {"Created", "Pending"}
"""Phases of which only the message is worth a line."""


class TerminalView:
    """Converts watch events and log lines to lines for users.

    Args:
        verbose: Also show the intermediate steps of every pod, and Normal events.
        colour: Keep the colours in the output of programs.
        progress: Have a line for each tenth of the training that is reported as done, and one
            when the programs write nothing any more: for outputs without a block that shows it all
            the time.
        started: When this command was started, in seconds since 1970.
    """

    def __init__(
        self,
        *,
        verbose: bool = False,
        colour: bool = False,
        progress: bool = False,
        started: float = 0.0,
    ) -> None:
        self.verbose = verbose
        self.colour = colour
        self.progress = progress
        self.started = started
        self.jobs: list[JobRecord] = []
        self.pods: dict[str, PodRecord] = {}
        self.pods_known = True
        """Whether pods can be observed; False if the cluster refuses it."""
        self.workloads: dict[str, Workload] = {}
        self.warnings: dict[tuple[str, str, str], Warned] = {}
        self.pulling: dict[str, str] = {}
        self._events: dict[str, int] = {}
        self._repeats = RepeatFilter()
        self._readers: dict[tuple[str, str], MetricReader] = {}
        self._newest: dict[str, PodRecord] = {}
        """Pods whose programs print their progress; the one that did so last is the last."""
        self.without_script: Callable[[str], str] | None = None
        """Says what to do about a script that a program did not find, by its path."""
        self._advised: set[str] = set()
        self.on_line: Callable[[str, str, str, Reading | None], None] | None = None
        """Called with pod, container and text of each line of a log, and the metrics in it."""

    # -- observations ---------------------------------------------------------------------------

    def follow(self, kind: str, namespace: str, name: str, now: float) -> list[Line]:
        """Add a job to wait for."""
        record = JobRecord(kind, namespace, name)
        record.started = now
        self.jobs.append(record)
        return []

    def job(self, job: Job, now: float, *, deleted: bool = False) -> list[Line]:
        """Record a new state of a job that is followed."""
        metadata = job.metadata
        record = next(
            (
                r
                for r in self.jobs
                if (r.kind, r.namespace, r.name) == (job.kind, metadata.namespace, metadata.name)
            ),
            None,
        )
        if record is None or record.finished is not None:
            return []
        before = record.state
        record.update(job, now, deleted=deleted)
        if deleted:
            return [Line(f"{record.name}: deleted before it finished", "bad", at=now)]
        lines = self._changes(record, before, now)
        if self.progress:
            lines += _tenths(record, now)
        # If the job itself is a pod, it is reported as a pod already.
        return [] if job.kind == "Pod" else lines

    def _changes(self, record: JobRecord, before: JobState, now: float) -> list[Line]:
        """Return what has changed in the state of a job."""
        state = record.state
        phase, message = state.phase, state.message
        waiting = phase in _WAITING
        evident = phase in states.SELF_EVIDENT
        silent = not self.verbose and (
            phase == before.phase if evident else waiting and not message
        )
        lines = []
        if phase and (phase, message) != (before.phase, before.message) and not silent:
            detail = message if self.verbose or not evident else ""
            if detail:
                detail = self._repeats.new_part(detail) or ""
            if detail or not waiting:
                words = ": ".join(filter(None, ("" if waiting and detail else phase, detail)))
                lines.append(Line(f"{record.name}: {words}", state.sign.tone, at=now))
        if state.not_synced and before.not_synced != state.not_synced:
            lines.append(Line(f"{record.name}: {state.not_synced}", "bad", at=now))
        text = state.not_advancing
        if text and before.not_advancing != text and (new := self._repeats.new_part(text)):
            lines.append(Line(f"warning: {record.name}: {new}", "bad", at=now))
        return lines

    def workload(self, workload: Workload, _now: float, *, deleted: bool = False) -> list[Line]:
        """Record a Job or StatefulSet between a training job and its pods."""
        known = self.workloads.get(workload.metadata.uid)
        if not deleted and (known is None or workload.wanted or not known.wanted):
            # A workload that is scaled to zero at the end keeps its earlier replicas here.
            self.workloads[workload.metadata.uid] = workload
        return []

    def pod(self, pod: Pod, now: float, *, deleted: bool = False) -> list[Line]:
        """Record a new state of a pod."""
        uid = pod.metadata.uid
        record = self.pods.get(uid)
        seen = known(pod, record.known if record is not None else None, gone=deleted)
        if record is None:
            record = self.pods[uid] = PodRecord(seen, now)
        record.known = seen
        leaving = deleted or pod.metadata.deletion_timestamp is not None
        if deleted:
            return []
        restarts, state = pod.status.restarts, record.state
        if not state.settled and not self.verbose:
            return []
        text = f"{record.name}: {state.word}"
        if restarts and state.word == states.RUNNING.word:
            text += f" again (restart {restarts})"
        detail = one_line(state.detail)
        if (text, detail) == record.announced or (leaving and not self.verbose):
            return []
        record.announced = (text, detail)
        if detail and (new := self._repeats.new_part(detail)):
            text += f": {new}"
        advice = self.advice(record)
        if not advice or advice in self._advised:
            return [Line(text, state.tone, at=now)]
        self._advised.add(advice)
        return [Line(text, state.tone, at=now), Line(advice, "bad", at=now)]

    def advice(self, record: PodRecord) -> str:
        """Return what to do about a pod that has failed; empty if nothing is known."""
        if record.failure is None or self.without_script is None:
            return ""
        said = [record.failure.text, *record.tails.get(record.failure.container, ())]
        script = missing_script("\n".join(said))
        return self.without_script(script) if script is not None else ""

    def event(self, event: Event, now: float) -> list[Line]:
        """Record an event; Warnings are shown once, and counted."""
        count = event.count or 1
        if self._events.get(event.metadata.uid) == count:
            return []
        self._events[event.metadata.uid] = count
        about = f"{event.involved_object.kind.lower()} {event.involved_object.name}"
        message = one_line(event.message)
        if event.type != "Warning":
            if not self.verbose:
                return []
            return [Line(f"{about}: {message} ({event.reason})", at=now)]
        if _UNSPECIFIC.fullmatch(message):
            return []
        key = (about, event.reason, message)
        known = self.warnings.get(key)
        self.warnings[key] = Warned(about=about, reason=event.reason, message=message, count=count)
        new = self._repeats.new_part(message)
        if not self.verbose and (
            known is not None or new is None or self._is_reported(about, message)
        ):
            return []
        return [Line(f"warning: {about}: {message} ({event.reason})", "bad", at=now)]

    def _is_reported(self, about: str, message: str) -> bool:
        """Return whether the job's own status has the same message."""
        return any(
            about == job.about and bool(job.state.message) and job.state.message in message
            for job in self.jobs
        )

    def pull(self, image: str, message: str, now: float) -> list[Line]:
        """Record progress in preparing an image."""
        message = one_line(message)
        if not message or self.pulling.get(image) == message:
            return []
        self.pulling[image] = message
        return [Line(f"image {image}: {message}", "busy", at=now)]

    def log(
        self, uid: str, container: str, text: str, *, stamp: str = "", now: float = 0.0
    ) -> list[Line]:
        """Record one line of a container's log.

        Args:
            uid: Of the pod.
            container: Its name.
            text: The line.
            stamp: Its time, as the API server sends it; empty if it is not known.
            now: When it was read, in seconds since 1970.
        """
        record = self.pods.get(uid)
        if record is None:
            return []
        if stamp:
            record.output.note(stamp, now)
        shown = clean(text, colour=self.colour)
        if shown is None:
            return []
        tail = record.tails.setdefault(container, deque(maxlen=TAIL_LINES))
        tail.append(shown)
        reading = self._readers.setdefault((uid, container), MetricReader()).read(shown)
        if reading is not None:
            record.reading = merged(record.reading, reading)
            self._newest[uid] = self._newest.pop(uid, record)
        if self.on_line is not None:
            self.on_line(record.name, container, shown, reading)
        app = record.pod.spec.containers
        only = len(app) == 1 and app[0].name == container
        source = record.name if only else f"{record.name}/{container}"
        return [Line(shown, source=source)]

    # -- state -----------------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Whether every job that is followed has ended."""
        return bool(self.jobs) and all(record.finished is not None for record in self.jobs)

    def pods_of(self, job: JobRecord) -> list[PodRecord]:
        """Return the pods of a job, in the order in which they appeared."""
        uid = job.uid
        return [one for one in self.pods.values() if self._root(one.known.pod) == uid]

    def _root(self, pod: Pod) -> str:
        uid, owner = pod.metadata.uid, controller_of(pod)
        while owner is not None:
            uid = owner.uid
            workload = self.workloads.get(uid)
            owner = controller_of(workload) if workload is not None else None
        return uid

    def containers_to_follow(self, pod: Pod) -> list[str]:
        """Return the containers of a pod to follow: init containers only after they failed."""
        names = [container.name for container in pod.spec.containers]
        for container in pod.spec.init_containers:
            sidecar = container.restart_policy == "Always"
            status = pod.status.container(container.name)
            if self.verbose or sidecar or (status is not None and status.has_failed):
                names.append(container.name)
        return names

    def failing_pod(self, job: JobRecord) -> PodRecord | None:
        """Return the pod that explains why a job has failed; None if no program has failed."""
        if job.job is None:
            return None
        pods = [record.known for record in self.pods_of(job)]
        found = explaining(kind_of(job.job), job.job, pods)
        if found is None or found.failure is None:
            return None
        return self.pods[found.pod.metadata.uid]

    def silence_of(self, job: JobRecord, now: float) -> Silence | None:
        """Return for how long the programs of a running job have written nothing, if too long."""
        if job.finished is not None or job.phase != "Running":
            return None
        pods = [each for each in self.pods_of(job) if is_running(each.known)]
        reported = None if job.reported is None else self.started + job.reported_at
        return silence_of([each.output for each in pods], self.started + now, reported)

    def silences(self, now: float) -> list[Line]:
        """Return a line for each job whose programs write nothing any more, once."""
        lines = []
        for job in self.jobs:
            found = self.silence_of(job, now)
            if found is not None and not job.is_quiet:
                lines.append(Line(f"{job.name}: {found.words()}", "busy", at=now))
            job.is_quiet = found is not None
        return lines

    def reading_of(self, job: JobRecord) -> Reading | None:
        """Return what the program of a job that printed last has printed of its progress."""
        mine = [each for each in self._newest.values() if self._root(each.pod) == job.uid]
        return mine[-1].reading if mine else None


def _tenths(record: JobRecord, now: float) -> list[Line]:
    """Return a line if another tenth of the training is done, by the newest report."""
    percentage = record.reported.percentage if record.reported is not None else None
    if percentage is None or percentage // 10 == record.tenths:
        return []
    record.tenths = percentage // 10
    return [Line(f"{record.name}: {GAP.join(progress_line(record, None, now).words())}", at=now)]
