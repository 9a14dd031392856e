"""Programs and pods that ended badly: exit codes, memory, evictions, lost nodes."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING

from traincrew.cli.display.programs import program, that_can_fail
from traincrew.cli.display.text import moment
from traincrew.cli.jobview.failures import missing_script, mount_of
from traincrew.cli.jobview.why.facts import Explanation, brief
from traincrew.plan.shared.pods import termination_text

if TYPE_CHECKING:
    from traincrew.cli.display.objects import Condition, ContainerStatus, Pod
    from traincrew.cli.jobview.why.facts import Facts

__all__ = [
    "KEPT",
    "disrupted",
    "ended_badly",
    "failed_pod",
    "failing",
    "kept_by_another",
    "pods_that_end",
    "stuck",
]

STUCK_SECONDS = 60.0
KEPT = "kept-by-sidecar"
"""Cause of a pod that another container keeps from ending after its program."""

_DISRUPTIONS = {
    "PreemptionByScheduler": (
        "preempted",
        "was preempted: a pod of higher priority took its place",
        "give the job a priorityClassName of higher priority, or wait",
    ),
    "DeletionByTaintManager": (
        "node-lost",
        "was evicted, because its node is lost or has a taint that it does not tolerate",
        "bring the node back, or delete it: kubectl get nodes",
    ),
    "DeletionByPodGC": (
        "node-lost",
        "was removed with its node, which does not exist any more",
        "nothing, the job starts it on another node",
    ),
    "EvictionByEvictionAPI": (
        "drained",
        "was evicted by somebody who drains its node",
        "nothing, the job starts it on another node",
    ),
    "TerminationByKubelet": (
        "node-pressure",
        "was ended by its node, which ran out of memory or disk, or shut down",
        "set requests for what the program needs, or add a larger node",
    ),
}
_NODE_REASONS = {
    "Evicted": (
        "evicted",
        "was evicted by its node",
        "set requests and limits for what the program needs; kubectl describe node shows which",
    ),
    "NodeLost": ("node-lost", "was lost with its node", "bring the node back: kubectl get nodes"),
    "NodeShutdown": (
        "node-shutdown",
        "was ended by the shutdown of its node",
        "nothing: it is started again",
    ),
    "Terminated": (
        "node-shutdown",
        "was ended by the shutdown of its node",
        "nothing: it is started again",
    ),
    "Preempting": (
        "preempted",
        "was ended by its node to make room for a critical pod",
        "add a node, or wait",
    ),
    "DeadlineExceeded": (
        "pod-deadline",
        "ran longer than its activeDeadlineSeconds",
        "raise activeDeadlineSeconds in the template",
    ),
    "UnexpectedAdmissionError": (
        "rejected-by-node",
        "was rejected by its node, because a device was not there any more",
        "check the device plugin of the node, and start the job again",
    ),
}
_TOO_LARGE = re.compile(r'EmptyDir volume "(?P<name>[^"]+)" exceeds the limit "(?P<limit>[^"]+)"')
_TOO_MUCH = re.compile(
    r"ephemeral local storage usage exceeds the total limit of containers (?P<total>\S+)\. "
    r'|local ephemeral storage limit "(?P<limit>[^"]+)"'
)
"""The kubelet's messages (`eviction_manager.go`)."""
_CODES = {
    126: (
        "command-not-executable",
        "its command is not executable",
        "make the script executable, or start it with its interpreter",
    ),
    127: (
        "command-not-found",
        "a command was not found",
        "correct the command, or use an image that contains it",
    ),
    134: (
        "aborted",
        "the program aborted itself (SIGABRT)",
        "look at its log: a failed assertion, or PyTorch's process group was not destroyed",
    ),
    135: (
        "bus-error",
        "of a bus error, mostly because /dev/shm is too small",
        "mount an emptyDir with medium: Memory at /dev/shm",
    ),
    137: (
        "killed",
        "it was killed (SIGKILL)",
        "raise resources.limits.memory if memory is the reason; else somebody ended it",
    ),
    139: (
        "segmentation-fault",
        "of a segmentation fault",
        "look at native extensions: their versions have to fit the image",
    ),
    143: (
        "terminated",
        "it was asked to end (SIGTERM)",
        "find out who deleted or restarted it: kubectl get events",
    ),
}


def ended_badly(
    facts: Facts, pod: Pod, container: ContainerStatus, subject: str, *, restarting: bool
) -> Explanation | None:
    """Explain how a container ended, if it ended badly."""
    # Over 60 lines: one case for each way in which a container ends.
    ended = container.last_end
    if ended is None:
        return None
    words = brief(termination_text(ended.message))
    where = f"container {container.name} of pod {pod.metadata.name}"
    quoted = f"{where}: exit code {ended.exit_code}" + (
        f" ({ended.reason})" if ended.reason else ""
    )
    evidence = [f"{quoted}: {words}" if words else quoted]
    if container.restart_count:
        evidence.append(f"{where} was restarted {container.restart_count} times")
    again = " It is restarted." if restarting else ""
    namespace, pod_name = facts.namespace, pod.metadata.name
    previous = " --previous" if container.state.terminated is None else ""
    log = f"traincrew logs {facts.job.metadata.name} -n {namespace}{previous}"
    if ended.reason == "OOMKilled":
        evidence += [
            f"event {event.reason} of pod {pod.metadata.name}: {brief(event.message)}"
            for event in facts.events_of(pod)
            if event.reason == "OOMKilling"
        ][:1]
        return Explanation(
            cause="out-of-memory",
            text=f"{subject} failed because it used more memory than its limit.{again}",
            evidence=tuple(evidence),
            fix="raise resources.limits.memory, or use less: a smaller batch, fewer workers of the"
            " data loader",
        )
    if ended.reason in {"StartError", "ContainerCannotRun"}:
        return Explanation(
            cause="command-not-found",
            text=f"{subject} failed, because its command cannot be started{_detail(words)}.{again}",
            evidence=tuple(evidence),
            fix="correct command in the manifest, or use an image that contains the program",
        )
    if ended.exit_code == 0:
        return Explanation(
            cause="ended-too-early",
            text=f"{subject} ended with exit code 0, but has to keep running.{again}",
            evidence=tuple(evidence),
            fix="the program of a worker runs until it is stopped (sleep infinity, or sshd)",
        )
    if (script := missing_script(words)) is not None:
        return Explanation(
            cause="script-not-found",
            text=f"{subject} failed: its script {script} is not in its image.{again}",
            evidence=tuple(evidence),
            fix="put it into the image, or mount a volume that has it (with traincrew run:"
            f" {mount_of(script)})",
        )
    init = any(one.name == container.name for one in pod.spec.init_containers)
    known = _CODES.get(ended.exit_code)
    if known is not None and not (words and ended.exit_code in {134, 137, 143}):
        cause, why, fix = known
        return Explanation(
            cause=cause,
            text=f"{subject} failed because {why}{_detail(words)}.{again}",
            evidence=tuple(evidence),
            fix=f"{fix}; {log}",
        )
    killed = _signal(ended.exit_code)
    code = f"exit code {ended.exit_code}{f' ({killed})' if killed else ''}"
    if init:
        log = f"kubectl logs -n {namespace} {pod_name} -c {container.name}{previous}"
    what = f"its init container {container.name}" if init else "its program"
    return Explanation(
        cause="init-container-failed" if init else "program-failed",
        text=f"{subject} failed: {what} ended with {code}{_detail(words)}.{again}",
        evidence=tuple(evidence),
        fix=f"kubectl logs -n {namespace} {pod_name} -c {container.name}{previous}"
        if init
        else log,
    )


def _detail(words: str) -> str:
    return f": {words.rstrip('.')}" if words else ""


def _signal(code: int) -> str:
    try:
        return signal.Signals(code - 128).name if code > 128 else ""
    except ValueError:
        return ""


def failed_pod(facts: Facts, pod: Pod, subject: str) -> Explanation | None:
    """Explain why a pod failed for good."""
    if (found := disrupted(pod, subject)) is not None:
        return found
    if pod.status.phase != "Failed":
        return None
    reason = pod.status.reason
    known = _NODE_REASONS.get(reason)
    if known is None and reason.startswith(("OutOf", "NodeAffinity", "Topology")):
        known = (
            "rejected-by-node",
            "was rejected by its node, which had no room for it any more",
            "nothing: it is started again; if it repeats, lower its requests",
        )
    if reason == "Evicted":
        known = _stored_too_much(pod.status.message) or known
    if known is not None:
        cause, words, fix = known
        quoted = f"pod {pod.metadata.name}: {reason}: {brief(pod.status.message)}"
        return Explanation(cause=cause, text=f"{subject} {words}.", evidence=(quoted,), fix=fix)
    for container in that_can_fail(pod):
        ended = container.state.terminated
        if ended is not None and ended.exit_code != 0:
            return ended_badly(facts, pod, container, subject, restarting=False)
    return None


def _stored_too_much(message: str) -> tuple[str, str, str] | None:
    """Return what an eviction for local storage is, in words, and the fix."""
    if (full := _TOO_LARGE.search(message)) is not None:
        name, limit = brief(full["name"]), brief(full["limit"])
        return (
            "volume-too-large",
            f"was evicted, because its volume {name} has grown beyond its sizeLimit, {limit}",
            f"raise emptyDir.sizeLimit of volume {name}, or write less into it",
        )
    if (full := _TOO_MUCH.search(message)) is not None:
        limit = brief(full["total"] or full["limit"])
        return (
            "storage-limit",
            f"was evicted, because it has written more than its ephemeral-storage limit, {limit}",
            "raise resources.limits.ephemeral-storage, or write into a volume of a claim",
        )
    return None


def disrupted(pod: Pod, subject: str) -> Explanation | None:
    """Explain by whom a pod was ended, other than by its program (KEP-3329)."""
    condition = pod.status.true("DisruptionTarget")
    if condition is None:
        return None
    cause, words, fix = _DISRUPTIONS.get(
        condition.reason, ("disrupted", "was ended by the cluster", "nothing: it is started again")
    )
    return Explanation(
        cause=cause,
        text=f"{subject} {words}.",
        evidence=(_quoted(pod, condition),),
        fix=fix,
    )


def _quoted(pod: Pod, condition: Condition) -> str:
    name = pod.metadata.name
    return (
        f"condition {condition.type} of pod {name}: {condition.reason}: {brief(condition.message)}"
    )


def stuck(facts: Facts, pod: Pod, subject: str) -> Explanation | None:
    """Explain why a pod that is being deleted does not go."""
    seconds = facts.age(pod.metadata.deletion_timestamp)
    if pod.metadata.deletion_timestamp is None or seconds < STUCK_SECONDS:
        return None
    node = pod.spec.node_name
    lost = any(
        each.metadata.name == node
        and any(one.type == "Ready" and one.status != "True" for one in each.status.conditions)
        for each in facts.nodes or ()
    )
    if lost:
        return Explanation(
            cause="node-lost",
            text=f"{subject} cannot be replaced: its node {node} does not answer, so it may still "
            "run there.",
            evidence=(f"node {node} is not ready", f"pod {pod.metadata.name} is being deleted"),
            fix=f"bring the node back, or delete it: kubectl delete node {node}",
        )
    return Explanation(
        cause="stuck-terminating",
        text=f"{subject} should have ended {seconds:.0f} s ago, but its node has not said so.",
        evidence=(f"pod {pod.metadata.name} on node {node} is being deleted",),
        fix=f"kubectl describe pod -n {facts.namespace} {pod.metadata.name} shows finalizers and"
        " events",
    )


def pods_that_end(facts: Facts) -> str:
    """Return which pods are being ended, and until when at the latest; "" if none is.

    The deletion timestamp of a pod is the time at which its grace period is over.
    """
    leaving = [
        pod
        for pod in facts.pods
        if pod.metadata.deletion_timestamp is not None and not pod.status.ended
    ]
    if not leaving:
        return ""
    ends = [moment(pod.metadata.deletion_timestamp) or facts.now for pod in leaving]
    left = (max(ends) - facts.now).total_seconds()
    until = f", which may take {left:.0f} s more" if left > 0 else ""
    if len(leaving) == 1:
        return f"Pod {leaving[0].metadata.name} is being ended{until}."
    who = "All" if len(leaving) == len(facts.pods) else len(leaving)
    return f"{who} of its pods are being ended{until}."


def failing(facts: Facts) -> Explanation | None:
    """Explain a job whose end is decided, and which waits for its pods to end.

    A Job has the condition ``FailureTarget`` from that decision on (KEP-3939).
    """
    decided = facts.job.status.true("FailureTarget")
    if decided is None:
        return None
    return Explanation(
        cause="failing",
        text=f"{facts.title} is about to fail: {brief(decided.message).rstrip('.')}. It waits"
        " for its pods to end.",
        evidence=(f"condition FailureTarget=True: {decided.reason}: {brief(decided.message)}",),
        fix="wait until they have ended",
    )


def kept_by_another(_facts: Facts, pod: Pod, subject: str) -> Explanation | None:
    """Explain a pod whose program has ended, and that another container keeps from ending."""
    own = program(pod)
    ended = own.state.terminated if own is not None else None
    if own is None or ended is None or pod.metadata.deletion_timestamp is not None:
        return None
    names = [each.name for each in pod.status.container_statuses if each.state.running is not None]
    if not names:
        return None
    who = f"container {names[0]}" if len(names) == 1 else f"containers {', '.join(names)}"
    still, it = ("runs", "it") if len(names) == 1 else ("run", "them")
    name = pod.metadata.name
    return Explanation(
        cause=KEPT,
        text=f"{subject} does not end: its program ended with exit code {ended.exit_code}, but"
        f" {who} still {still}.",
        evidence=(
            f"container {own.name} of pod {name}: exit code {ended.exit_code}",
            *(f"container {each} of pod {name} is running" for each in names),
        ),
        fix=f"make {it} a sidecar, which ends with the program: an entry of initContainers with"
        " restartPolicy: Always; or let it end by itself",
    )
