"""Formats durations, sizes, log lines and the state of pods for display."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Literal, NamedTuple

from traincrew.cli.display.programs import by_importance, that_can_fail
from traincrew.plan.shared.text import printable

if TYPE_CHECKING:
    from traincrew.cli.display.objects import ContainerStatus, Pod

Tone = Literal["plain", "good", "busy", "bad"]

_CONTROL_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movements, erasing
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC: titles, links
    r"|\x1b[PX^_][^\x1b]*(?:\x1b\\)?"  # device control and other strings
    r"|\x1b[ -/]*[0-~]"  # two-character escapes
    r"|\x1b",
)
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
# Control characters, and those that change the direction of the text after them.
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?")


def duration(seconds: float) -> str:
    """Format a duration in seconds."""
    seconds = max(0.0, seconds)
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def byte_size(count: int) -> str:
    """Format a number of bytes."""
    if count < 1000:
        return f"{count} B"
    units = ("kB", "MB", "GB", "TB")
    power = min(max(len(str(round(count / 1000))) - 1, 0) // 3, len(units) - 1)
    size = count / 1000 ** (power + 1)
    return f"{size:.1f} {units[power]}" if size < 99.5 else f"{size:.0f} {units[power]}"


def plain(text: str) -> str:
    """Replace unprintable characters, which could change the state of the terminal."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else "?" for each in text)


def one_line(text: str) -> str:
    """Return a text as one printable line."""
    return " ".join(printable(text).split())


def clock(seconds: float) -> str:
    """Format elapsed seconds as ``0:07`` or ``1:02:03``."""
    whole = int(max(0.0, seconds))
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def parse_duration(value: str) -> float:
    """Parse ``90``, ``90s``, ``5m`` or ``1h30m`` as seconds.

    Raises:
        ValueError: The text is not a duration, or is zero.
    """
    match = _DURATION.fullmatch(value.strip())
    if match is None or not any(match.groups()):
        raise ValueError(f"{value!r} is not a duration; write for example 90s, 5m or 1h30m")
    hours, minutes, seconds = match.groups()
    total = int(hours or 0) * 3600 + int(minutes or 0) * 60 + float(seconds or 0)
    if total <= 0:
        raise ValueError("a duration must be longer than zero")
    return total


def moment(timestamp: str | None) -> datetime | None:
    """Parse a Kubernetes timestamp; None if it is missing or malformed."""
    if not timestamp:
        return None
    try:
        return datetime.fromisoformat(timestamp)
    except ValueError:
        return None


def seconds_between(start: str | None, end: str | None) -> float | None:
    """Return the seconds between two Kubernetes timestamps."""
    first, last = moment(start), moment(end)
    return None if first is None or last is None else (last - first).total_seconds()


def clean(line: str, *, colour: bool) -> str | None:
    """Make one line of a program's output safe to display.

    Of a line that is redrawn with carriage returns, only the last state is shown. Cursor movements
    and other control sequences would garble the lines of other pods, and are dropped. Colours are
    kept if ``colour`` is set, and reset at the end of the line.

    Returns:
        The line, or None if it contained nothing but control characters.
    """
    if line.isprintable():
        return line
    segments = [segment for segment in line.rstrip("\r").split("\r") if segment]
    shown = segments[-1] if segments else ""
    coloured = False

    def replace(match: re.Match[str]) -> str:
        nonlocal coloured
        if colour and _COLOUR.fullmatch(match[0]):
            coloured = True
            return match[0]
        return ""

    shown = _CONTROL.sub("", _CONTROL_SEQUENCE.sub(replace, shown))
    if not shown and line.strip("\r"):
        return None
    return shown + "\x1b[0m" if coloured else shown


def uncoloured(line: str) -> str:
    """Return a line without colours: what `clean` has kept for showing is nothing to be read."""
    return _COLOUR.sub("", line) if "\x1b" in line else line


class PodState(NamedTuple):
    """The state of a pod in plain words.

    Attributes:
        word: A few words: ``running``, ``exit code 3``.
        detail: The reason as reported by the cluster, or empty.
        tone: How good the state is.
        settled: False for steps of every pod that are not worth a line of their own.
    """

    word: str
    detail: str = ""
    tone: Tone = "plain"
    settled: bool = True


def how_it_ended(status: ContainerStatus) -> tuple[str, Tone] | None:
    """Describe how a container terminated; None if it has not."""
    ended = status.state.terminated
    if ended is None:
        return None
    if ended.exit_code == 0:
        return "exit code 0", "good"
    known = ended.reason not in {"", "Error", "Completed"}
    return f"exit code {ended.exit_code}" + (f" ({ended.reason})" if known else ""), "bad"


PASSING = {"", "ContainerCreating", "PodInitializing"}
"""Reasons of containers that wait for what comes by itself."""


def pod_state(pod: Pod) -> PodState:
    """Describe the state of a pod in plain words."""
    status = pod.status
    if pod.metadata.deletion_timestamp is not None and status.phase in {"Pending", "Running"}:
        return PodState("stopping", settled=False)
    if status.ended:
        return _finished(pod)
    if (unscheduled := status.false("PodScheduled")) is not None:
        return PodState("waiting for a node", unscheduled.message, "bad")
    sidecars = {c.name for c in pod.spec.init_containers if c.restart_policy == "Always"}
    for number, init in enumerate(status.init_container_statuses, 1):
        waiting, ended = init.state.waiting, init.state.terminated
        if ended is not None and ended.exit_code != 0 and init.name not in sidecars:
            return PodState(f"init container {init.name}: exit code {ended.exit_code}", tone="bad")
        if waiting is not None and waiting.reason not in PASSING:
            return _waiting(init, waiting.reason, waiting.message)
        if init.state.running is not None and init.name not in sidecars:
            step = f"init {number}/{len(pod.spec.init_containers)}: {init.name}"
            return PodState(step, tone="busy", settled=False)
    ordered = [one for one in by_importance(pod) if one in status.container_statuses]
    for container in ordered:
        waiting = container.state.waiting
        if waiting is not None and waiting.reason not in PASSING:
            return _waiting(container, waiting.reason, waiting.message)
    for container in ordered:
        words = how_it_ended(container)
        if words is not None and words[1] == "bad":
            return PodState(f"{_named(pod, container)}{words[0]}", tone="bad")
    if any(c.state.running is not None for c in status.container_statuses):
        return PodState("running", tone="good")
    return PodState("starting" if pod.spec.node_name else "pending", tone="busy", settled=False)


STOP_SIGNALS = frozenset({137, 143})
"""Exit codes of a container that the kubelet has stopped: SIGKILL and SIGTERM."""


def was_stopped(pod: Pod, exit_code: int) -> bool:
    """Return whether a container has ended because its pod was deleted, as at the end of a job."""
    return pod.metadata.deletion_timestamp is not None and exit_code in STOP_SIGNALS


def _finished(pod: Pod) -> PodState:
    ordered = that_can_fail(pod)
    ends = [each.state.terminated for each in pod.status.container_statuses]
    codes = [each.exit_code for each in ends if each is not None and each.exit_code != 0]
    if codes and all(was_stopped(pod, code) for code in codes):
        return PodState("stopped", pod.status.message)
    for container in ordered:
        ended = how_it_ended(container)
        if ended is not None and ended[1] == "bad":
            return PodState(f"{_named(pod, container)}{ended[0]}", pod.status.message, "bad")
    if pod.status.phase == "Succeeded":
        return PodState("finished", "exit code 0", "good")
    return PodState("failed" + (f" ({pod.status.reason})" if pod.status.reason else ""),
                    pod.status.message, "bad")  # fmt: skip


def _named(pod: Pod, container: ContainerStatus) -> str:
    return f"{container.name}: " if len(pod.spec.containers) > 1 else ""


_WAITING = {
    "CrashLoopBackOff": "waiting to restart",
    "ErrImagePull": "image cannot be prepared",
    "ImagePullBackOff": "image cannot be prepared, will try again",
    "InvalidImageName": "image name is not valid",
    "CreateContainerConfigError": "its configuration is incomplete",
    "CreateContainerError": "its container cannot be created",
    "RunContainerError": "its command cannot be started",
    "StartError": "its command cannot be started",
}


def _waiting(status: ContainerStatus, reason: str, message: str) -> PodState:
    word = _WAITING.get(reason, reason)
    ended = status.last_state.terminated
    if reason == "CrashLoopBackOff" and ended is not None:
        word += f" after exit code {ended.exit_code}"
    return PodState(word, message, "bad")
