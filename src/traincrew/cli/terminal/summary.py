"""The summary at the end of a run: the outcome of each job and pod, and why a job failed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from traincrew.cli.display.lines import Line
from traincrew.cli.display.podstates import how_it_ended
from traincrew.cli.display.programs import by_importance
from traincrew.cli.display.rows import aligned, cut
from traincrew.cli.display.states import NOT_SEEN, RUNNING
from traincrew.cli.display.text import duration, seconds_between
from traincrew.plan.shared.pods import output_of_programs

if TYPE_CHECKING:
    from traincrew.cli.display.states import Tone
    from traincrew.cli.jobview.events import Warned
    from traincrew.cli.terminal.records import JobRecord, PodRecord
    from traincrew.cli.terminal.view import TerminalView

WARNINGS_SHOWN = 8
_LOG_LINES = 12
_SHORTEST_STATE = 8
_COLUMNS = ("POD", "STATE", "RESTARTS", "RAN")
# What is left of them on narrow terminals, from the widest table to the narrowest one.
_WITH_RESTARTS = (("POD", "STATE", "RESTARTS"), ("POD", "STATE"))
_WITHOUT_RESTARTS = (("POD", "STATE", "RAN"), ("POD", "STATE"))


def summary(view: TerminalView, now: float, columns: int | None = None) -> list[Line]:
    """Return the lines of the summary.

    Args:
        view: The observed state.
        now: Seconds since the start.
        columns: Width of the terminal; None if there is none.
    """
    lines: list[Line] = []
    for job in view.jobs:
        lines += [Line(""), *_headline(job, now), *_table(job, view.pods_of(job), now, columns)]
        if job.outcome is not None and not job.outcome.succeeded:
            lines += _why(view, job)
    failed = any(job.outcome is None or not job.outcome.succeeded for job in view.jobs)
    said = " ".join(line.text for line in lines)
    warnings = [warned for warned in _newest(view) if warned.message not in said]
    if failed and warnings:
        lines.append(Line("Warnings:"))
        for warned in warnings[-WARNINGS_SHOWN:]:
            times = f" (x{warned.count})" if warned.count > 1 else ""
            lines.append(Line(f"  {warned.about}: {warned.reason}: {warned.message}{times}"))
    return lines


def _newest(view: TerminalView) -> list[Warned]:
    """Return the warnings that the summary does not repeat; per job the newest of each reason."""
    jobs = {job.about: job for job in view.jobs}
    newest: dict[tuple[str, str, str], Warned] = {}
    for warned in view.warnings.values():
        job = jobs.get(warned.about)
        if job is None:
            newest[warned.about, warned.reason, warned.message] = warned
        elif job.outcome is None or warned.message not in job.outcome.reason:
            key = (warned.about, warned.reason, "")
            before = newest.pop(key).count if key in newest else 0
            newest[key] = replace(warned, count=before + warned.count)
    return list(newest.values())


def _headline(job: JobRecord, now: float) -> list[Line]:
    elapsed = duration((job.finished if job.finished is not None else now) - job.started)
    title = f"{job.kind} {job.name}"
    if job.outcome is None:
        return [Line(f"{title}: not finished ({job.phase or NOT_SEEN}) after {elapsed}", "bad")]
    if job.outcome.succeeded:
        return [Line(f"{title}: Succeeded after {elapsed}", "good")]
    return [Line(f"{title}: {job.phase} after {elapsed}", "bad")]


def _table(job: JobRecord, pods: list[PodRecord], now: float, columns: int | None) -> list[Line]:
    """Return the pods of a job; on a narrow terminal without the least important columns.

    Wrapped rows would not be readable. Names stay whole, so that they can be told apart; the
    headline has the job's name already.
    """
    if not pods:
        return []
    rows = [_row(record, now) for record in pods]
    lines = _aligned(rows, _COLUMNS)
    if columns is None or _fits(lines, columns):
        return lines
    rows = [(row[0].removeprefix(f"{job.name}-"), *row[1:]) for row in rows]
    restarted = any(row[2] for row in rows)
    for titles in _COLUMNS, *(_WITH_RESTARTS if restarted else _WITHOUT_RESTARTS):
        if _fits(lines := _aligned(rows, titles), columns):
            return lines
    room = columns - 1 - len(lines[0].text.rpartition("STATE")[0])
    if room >= _SHORTEST_STATE:
        return _aligned([(row[0], cut(row[1], room), *row[2:]) for row in rows], ("POD", "STATE"))
    return lines


def _fits(lines: list[Line], columns: int) -> bool:
    return all(len(line.text) < columns for line in lines)


def _aligned(rows: list[tuple[str, str, int, str, Tone]], titles: tuple[str, ...]) -> list[Line]:
    cells = [
        {"POD": pod, "STATE": how, "RESTARTS": f"{restarts:>8}", "RAN": ran}
        for pod, how, restarts, ran, _ in rows
    ]
    head, *others = aligned([titles, *([row[title] for title in titles] for row in cells)])
    tones = [row[-1] for row in rows]
    return [
        Line(f"  {head}"),
        *(Line(f"  {text}", tone) for text, tone in zip(others, tones, strict=True)),
    ]


def _row(record: PodRecord, now: float) -> tuple[str, str, int, str, Tone]:
    how, tone = _ending(record)
    return record.name, how, record.pod.status.restarts, _ran(record, now), tone


def _ending(record: PodRecord) -> tuple[str, Tone]:
    status = record.pod.status
    if status.phase == "Succeeded":
        return "exit code 0", "plain"
    if record.failure is not None and status.phase == "Failed":
        words = record.failure.text.partition(":")[0]
        return (words if record.failure.own else f"{record.failure.container}: {words}"), "bad"
    if record.gone or record.pod.metadata.deletion_timestamp is not None:
        return "stopped with the job", "plain"
    for ended_container in by_importance(record.pod):
        if ended_container not in status.container_statuses:
            continue
        if (ended := how_it_ended(ended_container)) is not None:
            return ended
    if record.state.word == RUNNING.word:
        return "still running", "plain"
    return record.state.word or status.phase.lower(), record.state.tone


def _ran(record: PodRecord, now: float) -> str:
    longest: float | None = None
    for container in record.pod.status.container_statuses:
        ended, running = container.state.terminated, container.state.running
        if ended is not None:
            # These timestamps have whole seconds.
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


def _why(view: TerminalView, job: JobRecord) -> list[Line]:
    """Explain why a job failed: its own reason, the failed pod, and the end of that pod's log."""
    assert job.outcome is not None
    reason, record = job.outcome.reason, view.failing_pod(job)
    if record is None:
        stuck = [
            Line(f"  {stuck.name}: {stuck.state.word}: {stuck.state.detail}", "bad")
            for stuck in view.pods_of(job)
            if stuck.state.tone == "bad" and stuck.state.detail
        ]
        return [*([Line(f"Why: {reason}", "bad")] if reason else []), *stuck]
    assert record.failure is not None
    container, ended = record.failure.container, record.failure.text
    tail = output_of_programs(list(record.tails.get(container, ())))[-_LOG_LINES:]
    how, _, words = ended.partition(": ")
    reason, output = _split_reason(reason, record.name)
    words = output or words
    if words:
        reason = reason.replace(f": {words}", "")  # other pods that failed in the same way
    if words.rstrip("…") in " ".join(" ".join(tail).split()):
        words = ""
    lines = [Line(f"Why: {reason}", "bad")] if reason else []
    text = ": ".join(filter(None, (how, words)))
    lines.append(Line(f"Pod {record.name}, container {container}: {text}", "bad"))
    if tail:
        lines.append(Line("Last lines of its log:"))
        lines += [Line(f"  {line}") for line in tail]
    else:
        lines.append(Line("It wrote nothing to its log."))
    if advice := view.advice(record):
        lines.append(Line(f"What to do: {advice}", "bad"))
    return lines


def _split_reason(reason: str, pod: str) -> tuple[str, str]:
    """Split a job's reason into the part that is not about a pod, and that pod's own message."""
    found = re.search(
        rf"(?:; )?pod {re.escape(pod)}(?: on node \S+)?: container \S+ exited with code -?\d+"
        r"(?: \([^)]*\))?(?:: (?P<words>.*?))?(?=; pod \S+(?: on node \S+)?: |; and \d+ more$|$)",
        reason,
    )
    if found is None:
        return reason, ""
    before, after = reason[: found.start()].rstrip(), reason[found.end() :]
    after = after.removeprefix(";") if before.endswith((".", ":")) else after
    return (before + after).strip(), found["words"] or ""
