"""The state of a pod in plain words, by the table of `traincrew.cli.display.states`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from traincrew.cli.display import states
from traincrew.cli.display.programs import by_importance, that_can_fail

if TYPE_CHECKING:
    from traincrew.cli.display.objects import ContainerStatus, Pod
    from traincrew.cli.display.states import Sign, Tone


class PodState(NamedTuple):
    """The state of a pod in plain words.

    Attributes:
        word: A few words: ``running``, ``exit code 3``.
        detail: The reason as reported by the cluster, or empty.
        sign: How it is marked.
        settled: False for steps of every pod that are not worth a line of their own.
    """

    word: str
    detail: str = ""
    sign: Sign = states.PLAIN
    settled: bool = True

    @property
    def tone(self) -> Tone:
        """How good the state is."""
        return self.sign.tone


def how_it_ended(status: ContainerStatus) -> tuple[str, Tone] | None:
    """Describe how a container terminated; None if it has not."""
    ended = status.state.terminated
    if ended is None:
        return None
    if ended.exit_code == 0:
        return "exit code 0", "good"
    known = ended.reason not in {"", "Error", "Completed"}
    return f"exit code {ended.exit_code}" + (f" ({ended.reason})" if known else ""), "bad"


def pod_state(pod: Pod) -> PodState:
    """Describe the state of a pod in plain words."""
    status = pod.status
    if pod.metadata.deletion_timestamp is not None and status.phase in {"Pending", "Running"}:
        return PodState(states.STOPPING.word, sign=states.STOPPING.sign, settled=False)
    if status.ended:
        return _finished(pod)
    if (unscheduled := status.false("PodScheduled")) is not None:
        return PodState(states.UNSCHEDULABLE.word, unscheduled.message, states.UNSCHEDULABLE.sign)
    sidecars = {c.name for c in pod.spec.init_containers if c.restart_policy == "Always"}
    for number, init in enumerate(status.init_container_statuses, 1):
        waiting, ended = init.state.waiting, init.state.terminated
        if ended is not None and ended.exit_code != 0 and init.name not in sidecars:
            return PodState(
                f"init container {init.name}: exit code {ended.exit_code}", sign=states.EXITED.sign
            )
        if waiting is not None and waiting.reason not in states.PASSING:
            return _waiting(init, waiting.reason, waiting.message)
        if init.state.running is not None and init.name not in sidecars:
            step = f"init {number}/{len(pod.spec.init_containers)}: {init.name}"
            return PodState(step, sign=states.INITIALIZING.sign, settled=False)
    ordered = [one for one in by_importance(pod) if one in status.container_statuses]
    for container in ordered:
        waiting = container.state.waiting
        if waiting is not None and waiting.reason not in states.PASSING:
            return _waiting(container, waiting.reason, waiting.message)
    for container in ordered:
        words = how_it_ended(container)
        if words is not None and words[1] == "bad":
            return PodState(f"{_named(pod, container)}{words[0]}", sign=states.EXITED.sign)
    if any(c.state.running is not None for c in status.container_statuses):
        return PodState(states.RUNNING.word, sign=states.RUNNING.sign)
    early = states.STARTING if pod.spec.node_name else states.PENDING
    return PodState(early.word, sign=early.sign, settled=False)


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
        return PodState(states.STOPPED.word, pod.status.message, states.STOPPED.sign)
    for container in ordered:
        ended = how_it_ended(container)
        if ended is not None and ended[1] == "bad":
            return PodState(
                f"{_named(pod, container)}{ended[0]}", pod.status.message, states.EXITED.sign
            )
    if pod.status.phase == "Succeeded":
        return PodState(states.FINISHED.word, "exit code 0", states.FINISHED.sign)
    word = states.FAILED.word + (f" ({pod.status.reason})" if pod.status.reason else "")
    return PodState(word, pod.status.message, states.FAILED.sign)


def _named(pod: Pod, container: ContainerStatus) -> str:
    return f"{container.name}: " if len(pod.spec.containers) > 1 else ""


def _waiting(status: ContainerStatus, reason: str, message: str) -> PodState:
    word = states.WAITING[reason].state.word if reason in states.WAITING else reason
    ended = status.last_state.terminated
    if reason == "CrashLoopBackOff" and ended is not None:
        word += f" after exit code {ended.exit_code}"
    return PodState(word, message, states.BAD)
