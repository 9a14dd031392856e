"""What pods say about themselves, in one line for people."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from traincrew.plan.model import ContainerStatus, PodView

_NORMAL_WAITS = {"", "ContainerCreating", "PodInitializing"}
_LONGEST = 300
_SHOWN = 3
_LAST_LINES = 3

_EXCEPTION = re.compile(r"(\[[^\]]*\](<\w+>)?: ?)?[A-Za-z_][\w.]*(Error|Exception): \S")
"""The line that ends a Python traceback and says something, also behind a rank's tag.

torchrun ends its own with a ``ChildFailedError:`` that does not.
"""
_RULER = re.compile(r"^-{20,}$", re.MULTILINE)
_EPILOGUE = re.compile(r"\s*(Primary job|\w+ detected that one or more processes)\b")
"""What Open MPI adds, between rulers, to what a failed program has said."""
_UNREADABLE = re.compile(r"Error on reading termination (log |message from logs: )")
"""A kubelet's own trouble: the file, or the log of an earlier run, was gone when it looked."""


def shorten(text: str, limit: int = _LONGEST) -> str:
    """One line of at most `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def trouble(pod: PodView) -> str | None:
    """Why a pod is not ready, when it says more than that it is being started."""
    status = pod.status
    if pod.metadata.deletion_timestamp is not None:
        return "is being deleted"
    for condition in status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return shorten(f"{condition.reason or 'Unschedulable'}: {condition.message}")
    if status.phase == "Failed" and status.reason:
        return shorten(f"{status.reason}: {status.message}")
    for container in (*status.init_container_statuses, *status.container_statuses):
        if (text := _container_trouble(container)) is not None:
            return text
    return None


def _container_trouble(container: ContainerStatus) -> str | None:
    waiting, ended = container.state.waiting, container.state.terminated
    if waiting is not None and waiting.reason not in _NORMAL_WAITS:
        # The kubelet appends which container of which pod it means; that is said already.
        message = waiting.message.partition(" container=")[0]
        text = f"{waiting.reason}: {message}" if message else waiting.reason
        if container.last_state.terminated is not None:
            text += f" ({exit_text(container)})"
        return shorten(text)
    if ended is not None and ended.exit_code != 0:
        return exit_text(container)
    return None


def exit_text(container: ContainerStatus) -> str:
    """How a container ended."""
    ended = container.state.terminated or container.last_state.terminated
    assert ended is not None
    text = f"container {container.name} exited with code {ended.exit_code}"
    if ended.reason and ended.reason != "Error":
        text += f" ({ended.reason})"
    if words := last_words(ended.message):
        text += f": {words}"
    return shorten(text)


def last_words(message: str) -> str:
    """What matters of a termination message, which may be the end of a log.

    That is the last Python exception in it; else its last lines, but for mere rulers and, if there
    is anything else, the epilogue of mpiexec. Empty if the kubelet could read nothing.
    """
    if _UNREADABLE.match(message):
        return ""
    parts = [part for part in _RULER.split(message) if part.strip()]
    told = "\n".join(part for part in parts if not _EPILOGUE.match(part)) or message
    lines = [line.strip() for line in told.splitlines() if any(map(str.isalnum, line))]
    for line in reversed(lines):
        if _EXCEPTION.match(line):
            return line
    return " ".join(lines[-_LAST_LINES:])


def failure(pod: PodView) -> str:
    """Why a pod has failed."""
    for container in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        ended = container.state.terminated
        if ended is not None and ended.exit_code != 0:
            where = f" on node {pod.spec.node_name}" if pod.spec.node_name else ""
            return f"pod {pod.metadata.name}{where}: {exit_text(container)}"
    said = " ".join(part for part in (pod.status.reason, pod.status.message) if part)
    return shorten(f"pod {pod.metadata.name}: {said or 'no reason given'}")


def newest(pods: Iterable[PodView]) -> PodView | None:
    """The pod that was created last."""
    return max(
        pods, key=lambda pod: (pod.metadata.creation_timestamp, pod.metadata.name), default=None
    )


def list_troubles(names: Sequence[str], pods: Iterable[PodView]) -> str:
    """What keeps the named pods from being ready, the first few of them.

    Args:
        names: The pods there should be, in order.
        pods: The pods there are.
    """
    by_name = {pod.metadata.name: pod for pod in pods}
    lines = []
    for name in names:
        pod = by_name.get(name)
        if pod is None or pod.ready:
            continue
        if (text := trouble(pod)) is not None:
            lines.append(f"{name}: {text}")
    return some(lines)


def some(lines: Sequence[str]) -> str:
    """The first few of many lines."""
    rest = len(lines) - _SHOWN
    return "; ".join(lines[:_SHOWN]) + (f"; and {rest} more" if rest > 0 else "")
