"""The account given when a run ends: what became of each job and pod, and why a job failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.cli.records import Line
from traincrew.cli.text import duration, how_it_ended, seconds_between

if TYPE_CHECKING:
    from traincrew.cli.records import JobRecord, PodRecord
    from traincrew.cli.text import Tone
    from traincrew.cli.view import View

WARNINGS_SHOWN = 8


def summary(view: View, now: float) -> list[Line]:
    """Say how everything ended; `now` in seconds since the start."""
    lines: list[Line] = []
    for job in view.jobs:
        lines += [Line(""), *_headline(job, now), *_table(view.pods_of(job), now)]
        if job.outcome is not None and not job.outcome.succeeded:
            lines += _why(view, job)
    failed = any(job.outcome is None or not job.outcome.succeeded for job in view.jobs)
    said = " ".join(line.text for line in lines)
    warnings = [warned for warned in view.warnings.values() if warned.message not in said]
    if failed and warnings:
        lines.append(Line("Warnings:"))
        for warned in warnings[-WARNINGS_SHOWN:]:
            times = f" (x{warned.times})" if warned.times > 1 else ""
            lines.append(Line(f"  {warned.about}: {warned.reason}: {warned.message}{times}"))
    return lines


def _headline(job: JobRecord, now: float) -> list[Line]:
    elapsed = duration((job.finished if job.finished is not None else now) - job.started)
    title = f"{job.kind} {job.name}"
    if job.outcome is None:
        return [Line(f"{title}: not finished ({job.phase or 'Pending'}) after {elapsed}", "bad")]
    if job.outcome.succeeded:
        return [Line(f"{title}: Succeeded after {elapsed}", "good")]
    return [Line(f"{title}: {job.phase} after {elapsed}", "bad")]


def _table(pods: list[PodRecord], now: float) -> list[Line]:
    if not pods:
        return []
    rows = [_row(record, now) for record in pods]
    name = max(len("POD"), *(len(row[0]) for row in rows))
    ended = max(len("STATE"), *(len(row[1]) for row in rows))
    lines = [Line(f"  {'POD':<{name}}  {'STATE':<{ended}}  RESTARTS  RAN")]
    for pod, how, restarts, ran, tone in rows:
        lines.append(Line(f"  {pod:<{name}}  {how:<{ended}}  {restarts:>8}  {ran}", tone))
    return lines


def _row(record: PodRecord, now: float) -> tuple[str, str, int, str, Tone]:
    how, tone = _ending(record)
    return record.name, how, record.restarts, _ran(record, now), tone


def _ending(record: PodRecord) -> tuple[str, Tone]:
    status = record.pod.status
    if status.phase == "Succeeded":
        return "exit code 0", "plain"
    if record.failure is not None and status.phase == "Failed":
        container, _, words, _ = record.failure
        words = words.partition(":")[0]
        main = record.pod.spec.containers[0].name if record.pod.spec.containers else container
        return (words if container == main else f"{container}: {words}"), "bad"
    if record.gone or record.pod.metadata.deletion_timestamp is not None:
        return "stopped with the job", "plain"
    for ended_container in status.container_statuses:
        if (ended := how_it_ended(ended_container)) is not None:
            return ended
    if record.state.word == "running":
        return "still running", "plain"
    return record.state.word or status.phase.lower(), record.state.tone


def _ran(record: PodRecord, now: float) -> str:
    longest: float | None = None
    for container in record.pod.status.container_statuses:
        ended, running = container.state.terminated, container.state.running
        if ended is not None:
            # Whole seconds is all these timestamps know.
            length = seconds_between(ended.started_at, ended.finished_at)
            length = None if length is None else float(round(length))
        elif running is not None:
            length = now - record.first_seen
        else:
            continue
        if length is not None:
            longest = max(longest or 0.0, length)
    if longest is None:
        return "-"
    return duration(longest) if longest >= 9.5 else f"{longest:.0f} s" if longest else "under 1 s"


def _why(view: View, job: JobRecord) -> list[Line]:
    assert job.outcome is not None
    lines = []
    if job.outcome.reason:
        lines.append(Line(f"Why: {job.outcome.reason}", "bad"))
    record = view.failing_pod(job)
    if record is None:
        lines += [
            Line(f"  {stuck.name}: {stuck.state.word}: {stuck.state.detail}", "bad")
            for stuck in view.pods_of(job)
            if stuck.state.tone == "bad" and stuck.state.detail
        ]
        return lines
    assert record.failure is not None
    container, _, words, _ = record.failure
    lines.append(Line(f"Pod {record.name}, container {container}: {words}", "bad"))
    tail = record.tails.get(container)
    if tail:
        lines.append(Line("Last lines of its log:"))
        lines += [Line(f"  {text}") for text in tail]
    else:
        lines.append(Line("It wrote nothing to its log."))
    return lines
