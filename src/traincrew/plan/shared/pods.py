"""The state of pods as one line for status and event messages."""
# Over 400 lines: one rule of what a pod is doing, for every state a pod can be in.

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from traincrew.api.meta import parse_time
from traincrew.plan.shared import failing, programs, torchrun
from traincrew.plan.shared.model import LogKey
from traincrew.plan.shared.text import each_once, exceptions_in, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from traincrew.plan.shared.model import Refusal
    from traincrew.plan.shared.views import ContainerStatus, ObservedPod

_NORMAL_WAITS = {"", "ContainerCreating", "PodInitializing"}
START_PATIENCE = timedelta(seconds=30)
"""For how long a pod may have no container without a reason to report."""
_LONGEST = 300
_SHOWN = 3
_LAST_LINES = 3

_RULER = re.compile(r"^-{20,}$", re.MULTILINE)
_EPILOGUE = re.compile(
    r"\s*(Primary job|\w+ detected that one or more processes"
    r"|(ORTE|PRTE) (was unable to reliably start one|does not know how to route))\b"
)
"""Begins what Open MPI adds, between rulers, to the output of a program that failed, or of the
agent that could not start its daemon."""
_UNREADABLE = re.compile(r"Error on reading termination (log |message from logs: )")
"""The kubelet's own error: the file, or the log of an earlier run, no longer existed."""


def shorten(text: str, limit: int = _LONGEST) -> str:
    """Return the text as one line of at most `limit` characters, all of them printable."""
    line = " ".join(printable(text).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def quantity(count: int, noun: str) -> str:
    """Return a number with its noun in the singular or plural: ``1 pod``, ``2 pods``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def being_ended(count: int) -> str:
    """Return how many pods are being ended: ``1 pod is being ended``."""
    return f"{quantity(count, 'pod')} {'is' if count == 1 else 'are'} being ended"


def has_ended(pod: ObservedPod) -> bool:
    """Return whether all containers have ended for good.

    The phase says so later: the kubelet writes it when the pod has let go of everything.
    """
    ended = [each.state.terminated for each in pod.status.container_statuses]
    final = pod.spec.restart_policy == "Never"
    return pod.finished or (
        bool(ended) and all(each is not None and (final or each.exit_code == 0) for each in ended)
    )


def not_ready_reason(pod: ObservedPod, now: datetime, named: Collection[str] = ()) -> str | None:
    """Return why a pod is not ready; None if it is merely starting.

    Args:
        pod: The pod.
        now: The time.
        named: The containers that the kind names; see `programs`.
    """
    status = pod.status
    if pod.metadata.deletion_timestamp is not None:
        return f"is being deleted{leaving_text(pod)}"
    if (lost := lost_with_node(pod)) is not None:
        return lost
    for condition in status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return shorten(f"{condition.reason or 'Unschedulable'}: {condition.message}")
    if status.phase == "Failed" and status.reason:
        return shorten(f"{status.reason}: {status.message}")
    for container in programs.by_importance(pod, named):
        if (text := _container_not_ready_reason(container)) is not None:
            return text
    return _late_text(pod) if is_late(pod, now) else None


def lost_with_node(pod: ObservedPod) -> str | None:
    """Return that the node of a pod does not answer; None as far as nothing is known of that.

    The controller of nodes then sets the pod's condition ``Ready`` to false, and nothing else:
    ``ContainersReady``, the containers and the reason stay as the kubelet has left them.
    """
    status, node = pod.status, pod.spec.node_name
    if not node or pod.finished:
        return None
    ready = next((each for each in status.conditions if each.type == "Ready"), None)
    containers = status.container_statuses
    contradicted = (
        ready is not None
        and ready.status != "True"
        and not ready.reason
        and bool(containers)
        and all(each.ready for each in containers)
    )
    if contradicted or status.reason == "NodeLost":
        return f"its node {node} does not answer"
    return None


def leaving_text(pod: ObservedPod) -> str:
    """Return why a pod is being deleted, or why it stays nevertheless, in brackets; or ""."""
    if (lost := lost_with_node(pod)) is not None:
        return f" ({lost})"
    condition = pod.condition("DisruptionTarget")
    if condition is None:
        return ""
    text = ": ".join(part for part in (condition.reason, condition.message) if part)
    return f" ({shorten(text)})" if text else ""


def list_lost(pods: Iterable[ObservedPod]) -> str:
    """Return which of the pods that run are lost with their nodes, for the first few of them."""
    lost = [
        f"{pod.metadata.name}: {text}"
        for pod in pods
        if pod.running and (text := lost_with_node(pod)) is not None
    ]
    return first_few(lost)


def is_late(pod: ObservedPod, now: datetime) -> bool:
    """Return whether a pod waits for its volumes, its network or a scheduler for too long."""
    return _patience_left(pod, now) <= 0


def seconds_until_late(pods: Iterable[ObservedPod], now: datetime) -> float | None:
    """Return the seconds until another pod has been starting for too long."""
    left = (_patience_left(pod, now) for pod in pods if pod.status.phase == "Pending")
    return min((each for each in left if 0 < each < math.inf), default=None)


def _patience_left(pod: ObservedPod, now: datetime) -> float:
    """Return for how many seconds it is normal that nothing happens; infinite if something does.

    A pod without a node waits for a scheduler to look at it, one with a node for its volumes, its
    network and its node. When they are there, the condition ``PodReadyToStartContainers`` is true,
    and images are pulled, which may take long.
    """
    status = pod.status
    if status.phase != "Pending" or pod.metadata.deletion_timestamp is not None:
        return math.inf
    if pod.condition("PodReadyToStartContainers") is not None or _has_begun(pod):
        return math.inf
    since = pod.metadata.creation_timestamp
    scheduled = next((each for each in status.conditions if each.type == "PodScheduled"), None)
    if pod.spec.node_name:
        if scheduled is not None:
            since = scheduled.last_transition_time or since
    elif scheduled is not None:
        return math.inf
    return (parse_time(since) + START_PATIENCE - now).total_seconds() if since else math.inf


def _has_begun(pod: ObservedPod) -> bool:
    """Return whether any container was started."""
    return any(
        each.has_run
        for each in (*pod.status.init_container_statuses, *pod.status.container_statuses)
    )


def _late_text(pod: ObservedPod) -> str:
    node, after = pod.spec.node_name, f"after {START_PATIENCE.total_seconds():.0f} s"
    if not node:
        name = pod.spec.scheduler_name or "default-scheduler"
        return f"no scheduler has looked at it {after}: is there one with the name {name}?"
    if not (pod.status.container_statuses or pod.status.init_container_statuses):
        return f"its node {node} has not begun to start it {after}"
    needed = [each.needed for each in pod.spec.volumes if each.needed]
    text = f"no container is created {after} (ContainerCreating)"
    if not needed:
        return f"{text}: see the events of the pod"
    rest = len(needed) - _SHOWN
    names = ", ".join(needed[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
    question = "does it exist?" if len(needed) == 1 else "do they exist?"
    return shorten(f"{text}; it mounts {names}: {question} See the events of the pod")


def _container_not_ready_reason(container: ContainerStatus) -> str | None:
    waiting, ended = container.state.waiting, container.state.terminated
    if waiting is not None and waiting.reason not in _NORMAL_WAITS:
        # The kubelet appends the names of container and pod, which the message has already.
        message = waiting.message.partition(" container=")[0]
        text = f"{waiting.reason}: {message}" if message else waiting.reason
        if container.last_state.terminated is not None:
            text += f" ({exit_text(container)})"
        return shorten(text)
    if ended is not None and ended.exit_code != 0:
        return exit_text(container)
    return None


def exit_text(container: ContainerStatus) -> str:
    """Return how a container terminated."""
    ended = container.last_end
    assert ended is not None
    text = f"container {container.name} exited with code {ended.exit_code}"
    if ended.reason and ended.reason != "Error":
        text += f" ({ended.reason})"
    if words := termination_text(ended.message):
        text += f": {words}"
    return shorten(text)


def termination_text(message: str) -> str:
    """Return the relevant part of a termination message, which may be the end of a log.

    That is torchrun's report of the process that failed; else the last Python exception; else the
    last lines, without rulers and, unless there is nothing else, without the epilogue of mpiexec.
    Empty if the kubelet could not read the log. All of it is printable.
    """
    message = printable(message)
    if _UNREADABLE.match(message):
        return ""
    if torchrun.is_from_launcher(message) and (cause := torchrun.cause(message)):
        return cause
    output = _without_epilogue(message) or message
    if exceptions := exceptions_in(output):
        return "".join(exceptions[-1])
    lines = [line.strip() for line in output.splitlines() if any(map(str.isalnum, line))]
    return " ".join(each_once(lines)[-_LAST_LINES:])


def _without_epilogue(message: str) -> str:
    """Return a message without the epilogue of mpiexec."""
    parts = [part for part in _RULER.split(message) if part.strip()]
    return "\n".join(part for part in parts if not _EPILOGUE.match(part))


def output_of_programs(lines: list[str]) -> list[str]:
    """Return the lines of a log that the failed programs wrote, each of them once.

    Without the reports of torchrun and mpiexec, unless there is nothing else.
    """
    own = torchrun.own_lines(lines)
    found = each_once(_without_epilogue("\n".join(own)).splitlines())
    return "\n".join(found).strip("\n").splitlines() or own


def hides_cause(message: str) -> bool:
    """Return whether a termination message contains nothing but a launcher's epilogue.

    The kubelet keeps 2 KiB at most, which is less than torchrun's own traceback and table.
    """
    if not message or _UNREADABLE.match(message):
        return False
    if torchrun.is_from_launcher(message):
        return torchrun.hides_cause(message)
    return not _without_epilogue(message).strip()


def logs_to_read(pod: ObservedPod) -> list[LogKey]:
    """Return the logs of failed containers that have to be read to learn why they failed."""
    found = []
    for container in pod.status.container_statuses:
        ended, previous = container.state.terminated, False
        if ended is None and container.state.waiting is not None:
            ended, previous = container.last_state.terminated, True
        if ended is not None and ended.exit_code != 0 and hides_cause(ended.message):
            key = LogKey(
                pod.metadata.name,
                pod.metadata.uid,
                container.name,
                container.restart_count,
                previous,
            )
            found.append(key)
    return found


def with_logs(pod: ObservedPod, logs: Mapping[LogKey, str]) -> ObservedPod:
    """Replace the termination messages of a pod's containers by their logs, where available."""
    texts = {key: logs[key] for key in logs_to_read(pod) if logs.get(key)}
    if not texts:
        return pod
    by_name = {key.container: (key.previous, text) for key, text in texts.items()}
    containers = [
        _with_message(container, *by_name[container.name])
        if container.name in by_name
        else container
        for container in pod.status.container_statuses
    ]
    status = msgspec.structs.replace(pod.status, container_statuses=containers)
    return msgspec.structs.replace(pod, status=status)


def _with_message(container: ContainerStatus, previous: bool, text: str) -> ContainerStatus:
    state = container.last_state if previous else container.state
    assert state.terminated is not None
    ended = msgspec.structs.replace(state.terminated, message=printable(text))
    updated = msgspec.structs.replace(state, terminated=ended)
    if previous:
        return msgspec.structs.replace(container, last_state=updated)
    return msgspec.structs.replace(container, state=updated)


def ended_at(pod: ObservedPod, named: Collection[str] = ()) -> str:
    """Return when the program of a pod terminated; `failing.UNKNOWN` if that is not known.

    If that of the program is not known, it is the time of the first of its containers.

    Args:
        pod: The pod.
        named: The containers that the kind names; see `programs`.
    """
    own = programs.program(pod, named)
    if own is not None and own.state.terminated is not None and own.state.terminated.finished_at:
        return own.state.terminated.finished_at
    ends = [
        status.state.terminated.finished_at
        for status in pod.status.container_statuses
        if status.state.terminated is not None and status.state.terminated.finished_at
    ]
    return min(ends, default=failing.UNKNOWN)


def failure(pod: ObservedPod, named: Collection[str] = ()) -> str:
    """Return why a pod has failed.

    Args:
        pod: The pod.
        named: The containers that the kind names; see `programs`.
    """
    for container in programs.that_can_fail(pod, named):
        ended = container.state.terminated
        if ended is not None and ended.exit_code != 0:
            where = f" on node {pod.spec.node_name}" if pod.spec.node_name else ""
            return f"pod {pod.metadata.name}{where}: {exit_text(container)}"
    if pod.metadata.deletion_timestamp is not None and not pod.status.reason:
        return f"pod {pod.metadata.name} was deleted"
    text = " ".join(part for part in (pod.status.reason, pod.status.message) if part)
    return shorten(f"pod {pod.metadata.name}: {text or 'no reason given'}")


def failures(failed: Iterable[ObservedPod], named: Collection[str] = ()) -> list[str]:
    """Return why each pod has failed; what an earlier one says as well is not repeated."""
    said: set[str] = set()
    lines = []
    for pod in failed:
        who, _, what = failure(pod, named).partition(": ")
        lines.append(f"{who}: {'the same' if what in said else what}")
        said.add(what)
    return lines


def was_disrupted(pod: ObservedPod) -> bool:
    """Whether something other than its containers ended the pod, or is about to.

    The pod says so by a condition (KEP-3329), or by a reason: evicted, rejected by the kubelet,
    ended with its node.
    """
    if pod.condition("DisruptionTarget") is not None:
        return True
    return bool(pod.status.reason) and pod.status.reason != "DeadlineExceeded"


def disruption(pod: ObservedPod) -> str:
    """Return by whom a pod was ended, other than by its containers; empty if that is unknown."""
    condition = pod.condition("DisruptionTarget")
    if condition is None:
        return ""
    where = f" on node {pod.spec.node_name}" if pod.spec.node_name else ""
    text = ": ".join(part for part in (condition.reason, condition.message) if part)
    return shorten(f"pod {pod.metadata.name}{where}: {text or condition.type}")


def newest(pods: Iterable[ObservedPod]) -> ObservedPod | None:
    """Return the pod that was created last."""
    return max(pods, key=age, default=None)


def age(pod: ObservedPod) -> tuple[str, bool, str]:
    """Return a sort key that orders the pods of one place by age, oldest first.

    Timestamps have whole seconds. Within one second, a pod that is ending is older than one that is
    not: a controller creates another only after the first one ends.
    """
    return pod.metadata.creation_timestamp, not is_ending(pod), pod.metadata.name


def is_ending(pod: ObservedPod) -> bool:
    """Return whether a pod has ended or is terminating, so that another may take its place."""
    return pod.finished or pod.metadata.deletion_timestamp is not None


def list_not_ready(
    names: Sequence[str],
    pods: Iterable[ObservedPod],
    rejections: Mapping[str, Refusal],
    reason: Callable[[ObservedPod], str | None],
) -> str:
    """Return why the named pods are not ready, for the first few of them.

    Args:
        names: The names of the desired pods, in order.
        pods: The existing pods.
        rejections: Why the API refuses pods, by name.
        reason: Tells why one is not ready.
    """
    by_name = {pod.metadata.name: pod for pod in pods}
    lines = []
    for name in names:
        pod = by_name.get(name)
        if pod is None and name in rejections:
            lines.append(f"{name}: {rejection_text(name, rejections[name])}")
        if pod is None or pod.ready:
            continue
        text = reason(pod)
        if text is not None:
            lines.append(f"{name}: {text}")
    return first_few(lines)


def rejection_text(name: str, refusal: Refusal) -> str:
    """Return why the API refuses a pod, without the name of the pod."""
    if refusal.foreign:
        whose = f"; its controller is {refusal.owner}" if refusal.owner else ""
        return shorten(f"another pod has this name and is not managed by this job{whose}")
    return shorten(refusal.message.removeprefix(f'pods "{name}" is forbidden: '))


def first_few(lines: Sequence[str]) -> str:
    """Join the first few of many lines."""
    rest = len(lines) - _SHOWN
    return "; ".join(lines[:_SHOWN]) + (f"; and {rest} more" if rest > 0 else "")
