"""Chooses the explanation: of the job's own state, else of the pod that keeps it from running."""
# Over 400 lines: the order of the explanations is read in one place.

from __future__ import annotations

import re
from typing import TYPE_CHECKING, assert_never

from msgspec.structs import replace

from traincrew.api.kind import MULTI_KUEUE
from traincrew.api.reasons import Cause
from traincrew.cli.display.text import duration
from traincrew.cli.jobview.jobstate import job_state
from traincrew.cli.jobview.pods import explaining, known, place_of
from traincrew.cli.jobview.why import (
    advancing,
    children,
    creating,
    ending,
    placing,
    queues,
    silent,
    starting,
    together,
)
from traincrew.cli.jobview.why.facts import SHOWN, Explanation, brief
from traincrew.plan.shared.queueing import kueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.cli.display.objects import Condition, Pod
    from traincrew.cli.jobview.why.facts import Facts

__all__ = ["explain"]

_DELAY = re.compile(r"\b(?:restarted|recreated|tried again) in \d+ s\b")
"""The back-off in the message of a job (`traincrew.plan.shared.runpolicy.backoff_words`)."""
SEEN_SECONDS = 10.0
"""An operator that runs writes a status sooner."""
_COUNTED = re.compile(r";? \d+ pods? (?:is|are) being ended")
"""What the operator says of the same pods (`traincrew.plan.shared.planner`)."""
_SAYS_WHAT_ENDS = {"deleted", "node-lost", "stuck-terminating"}
"""Causes whose texts are about pods that are being ended."""


def explain(facts: Facts) -> Explanation:
    """Return why a job is in its state."""
    status = facts.job.status
    if facts.job.metadata.deletion_timestamp is not None:
        found = _deleted(facts)
    elif (failed := status.true("Failed")) is not None:
        found = _failed(facts, failed)
    elif (succeeded := status.succeeded) is not None:
        found = _succeeded(facts, succeeded)
    elif not facts.kind.definition.manager.is_here(facts.job.spec):
        found = _elsewhere(facts)
    elif not status.conditions and not status.told_phase and not facts.pods:
        found = _unseen(facts)
    elif (suspended := status.true("Suspended")) is not None:
        found = _suspended(facts, suspended)
    else:
        found = _unfinished(facts)
    if found.cause not in _SAYS_WHAT_ENDS and (words := ending.pods_that_end(facts)):
        text = _COUNTED.sub("", found.text).rstrip(".")
        found = replace(found, text=f"{text}. {words}")
    return replace(found, evidence=tuple(dict.fromkeys(found.evidence))[:SHOWN])


# -- the job itself -------------------------------------------------------------------------------


def _deleted(facts: Facts) -> Explanation:
    pods = len(facts.pods)
    return Explanation(
        cause="deleted",
        text=f"{facts.title} is being deleted; {pods} of its pods are left.",
        evidence=(f"metadata.deletionTimestamp: {facts.job.metadata.deletion_timestamp}",),
        fix="wait; if it stays, look at metadata.finalizers",
    )


def _elsewhere(facts: Facts) -> Explanation:
    """Explain a job that another manager runs; nothing here says whether it has pods."""
    field, status = facts.kind.definition.manager, facts.job.status
    manager = field.of(facts.job.spec)
    text = f"{facts.title} is run by {brief(manager)}, as {field.field} says"
    fix = "look at what that manager says of it"
    if manager == MULTI_KUEUE:
        text = f"{text}: on another cluster"
        fix = (
            f"kubectl describe {kueue.WORKLOADS} -n {facts.namespace}"
            f" -l {kueue.JOB_UID}={facts.job.metadata.uid} says which, or why it waits"
        )
    said = status.message or status.phase
    return Explanation(
        cause="managed-elsewhere",
        text=f"{text}. {said}" if said else f"{text}; its status is empty.",
        evidence=(f"{field.field}: {brief(manager)}",),
        fix=fix,
    )


def _unseen(facts: Facts) -> Explanation:
    seconds = facts.age(facts.job.metadata.creation_timestamp)
    if seconds < SEEN_SECONDS:
        return Explanation(
            cause="just-created",
            text=f"{facts.title} was created {seconds:.0f} s ago; no operator has seen it yet.",
            evidence=("status is empty",),
            fix="wait a moment",
        )
    project = facts.kind.definition.project
    fix = (
        "kubectl get deployments -A | grep operator shows whether it runs; to install it:"
        " traincrew manifests | kubectl create -f -"
    )
    if project is not None:
        fix = (
            f"kubectl get deployments -A -l {project.deployments} shows whether the operator of"
            f" {project.name} runs"
        )
    return Explanation(
        cause="operator-absent",
        text=f"No operator has seen {facts.title}, which was created {duration(seconds)} ago: the "
        "operator is not installed, does not run, or does not watch this namespace.",
        evidence=("status is empty",),
        fix=fix,
    )


def _behind(facts: Facts) -> Explanation:
    seen, generation = facts.job.status.observed_generation, facts.job.metadata.generation
    return Explanation(
        cause="operator-behind",
        text=f"{facts.title} was changed, and the operator has not seen the change yet.",
        evidence=(f"metadata.generation {generation}, status.observedGeneration {seen}",),
        fix="wait a moment; if it stays, see whether the operator runs: kubectl get deployments -A",
    )


def _suspended(facts: Facts, condition: Condition) -> Explanation:
    if (found := together.released(facts, condition)) is not None:
        return found
    if (found := queues.held(facts, condition)) is not None:
        return found
    if condition.reason == "Draining":
        return Explanation(
            cause="draining",
            text=f"{facts.title} is suspended; its pods are still ending.",
            evidence=(_quoted(condition),),
            fix="wait until they have ended",
        )
    return Explanation(
        cause="suspended",
        text=f"{facts.title} is suspended: it has no pods until somebody resumes it, which may be "
        "a queue such as Kueue.",
        evidence=(_quoted(condition),),
        fix="set suspend to false (kubectl edit), unless a queue does it",
    )


def _succeeded(facts: Facts, condition: Condition) -> Explanation:
    if late := _late_edit(facts):
        return late
    return Explanation(
        cause="succeeded",
        text=f"{facts.title} has succeeded.",
        evidence=(_quoted(condition),),
    )


def _late_edit(facts: Facts) -> Explanation | None:
    synced = facts.job.status.false("Synced")
    if synced is None or synced.reason != "JobFinished":
        return None
    return Explanation(
        cause="changed-too-late",
        text=f"{facts.title} had finished before its spec was changed; the change has no effect.",
        evidence=(_quoted(synced),),
        fix="delete the job and create it again",
    )


def _failed(facts: Facts, condition: Condition) -> Explanation:
    found = _failure(facts, condition)
    late = _late_edit(facts)
    if late is None:
        return found
    return replace(
        found,
        text=f"{found.text.rstrip('.')}. Its spec was changed after that, which has no effect.",
        evidence=(*found.evidence[: SHOWN - 1], *late.evidence),
        fix=f"{found.fix}; to run what you changed, delete the job and create it again",
    )


def _failure(facts: Facts, condition: Condition) -> Explanation:
    quoted, message = _quoted(condition), brief(condition.message)
    program = _failed_pod(facts)
    child = children.failure(facts)
    evidence = (quoted, *(program.evidence if program is not None else child.evidence))
    cause = facts.kind.definition.reasons.cause(condition.reason, condition.message)
    if cause is Cause.PROGRAM and program is None and child.cause is Cause.DEADLINE:
        cause = child.cause  # a job of Jobs fails by one of them
    match cause:
        case Cause.INVALID:
            return Explanation(
                cause="invalid-spec",
                text=f"{facts.title} failed because its spec is invalid: {message}",
                evidence=(quoted,),
                fix="correct the field, delete the job and create it again",
            )
        case Cause.DEADLINE:
            return Explanation(
                cause="deadline",
                text=f"{facts.title} failed because it ran longer than activeDeadlineSeconds.",
                evidence=evidence,
                fix="raise activeDeadlineSeconds, or make the program faster; save"
                " checkpoints to continue from",
            )
        case Cause.NO_PROGRESS:
            return Explanation(
                cause="no-progress",
                text=f"{facts.title} failed because it made no progress: {message}",
                evidence=evidence,
                fix=f"look at the end of the logs (traincrew logs {facts.job.metadata.name}), or"
                " raise progressDeadlineSeconds",
            )
        case Cause.FOREIGN:
            return _foreign(facts, message, quoted)
        case Cause.LEFTOVER:
            return _leftover(facts, message, quoted)
        case Cause.NOT_STARTED | Cause.REFUSED:
            return _not_started(facts, condition, quoted)
        case Cause.BACKOFF_LIMIT | Cause.PROGRAM:
            return _program_failed(facts, cause, condition, program, evidence)
        case _:
            assert_never(cause)


def _not_started(facts: Facts, condition: Condition, quoted: str) -> Explanation:
    words = f"{facts.title} failed because its pods did not start in time"
    below = creating.refused(facts, [condition.message], words) or _worst_of_all(facts)
    if below is not None:
        return replace(below, evidence=(*below.evidence, quoted))
    return Explanation(
        cause="not-started-in-time",
        text=f"{words}: {brief(condition.message)}",
        evidence=(quoted,),
        fix="the message names the pods and their reasons; allow more time with"
        " schedulingPolicy.scheduleTimeoutSeconds",
    )


def _program_failed(
    facts: Facts,
    cause: Cause,
    condition: Condition,
    program: Explanation | None,
    evidence: tuple[str, ...],
) -> Explanation:
    """Explain the failure of a program that is not tried again."""
    quoted = _quoted(condition)
    out_of_retries = cause is Cause.BACKOFF_LIMIT
    if (taken := _worst(facts, starting.port_taken)) is not None:
        text = f"{facts.title} has failed. {taken.text}"
        return replace(taken, text=text, evidence=(*taken.evidence, *evidence))
    if program is not None:
        retries = " and has no retries left" if out_of_retries else ""
        text = f"{facts.title} has failed{retries}. {program.text}"
        return replace(program, text=text, evidence=(*program.evidence, quoted))
    return Explanation(
        cause="retries-exhausted" if out_of_retries else "failed",
        text=f"{facts.title} failed: {brief(condition.message)}",
        evidence=evidence,
        fix="correct the program, delete the job and create it again",
    )


def _foreign(facts: Facts, message: str, quoted: str) -> Explanation:
    return Explanation(
        cause="foreign-child",
        text=f"{facts.title} cannot create an object, because somebody else has one of that name: "
        f"{message}",
        evidence=(quoted,),
        fix="delete or rename the other object, or give the job another name",
    )


def _leftover(facts: Facts, message: str, quoted: str) -> Explanation:
    return Explanation(
        cause="waiting-for-deletion",
        text=f"{facts.title} waits until an object of an earlier job of the name is gone: "
        f"{message}",
        evidence=(quoted,),
        fix="wait; if it stays, look at the finalizers of the object",
    )


# -- a job that has not ended ---------------------------------------------------------------------


def _unfinished(facts: Facts) -> Explanation:
    if (unsynced := facts.job.status.false("Synced")) is not None:
        return _not_synced(facts, unsynced)
    seen = facts.job.status.observed_generation
    if seen is not None and seen < facts.job.metadata.generation:
        return _behind(facts)
    if (taken := _worst(facts, starting.port_taken)) is not None:
        return taken  # its pods run, and talk to another program
    trouble = creating.refused_pods(facts) or _worst_of_all(facts)
    if trouble is None or trouble.cause == "not-ready":  # as are pods without their program
        trouble = _worst(facts, ending.kept_by_another) or trouble
    status = facts.job.status
    if (restarting := status.restarting) is not None:
        return _restarting(facts, restarting, trouble)
    if (running := status.true("Running") or children.counted(facts)) is not None:
        return _running(facts, running, trouble)
    found = together.waiting(facts) or trouble or _waiting(facts)
    if words := together.not_honored(facts):
        found = replace(found, text=f"{found.text.rstrip('.')}. {words}")
    return found


def _not_synced(facts: Facts, condition: Condition) -> Explanation:
    quoted, message = _quoted(condition), brief(condition.message)
    cause = facts.kind.definition.reasons.cause(condition.reason)
    if cause is Cause.FOREIGN:
        return _foreign(facts, message, quoted)
    if cause is Cause.LEFTOVER:
        return _leftover(facts, message, quoted)
    subject = f"{facts.title} cannot create one of its objects"
    below = creating.refused(facts, [condition.message], subject)
    if below is not None:
        return replace(below, evidence=(quoted, *below.evidence[1:]))
    return Explanation(
        cause="not-applied",
        text=f"The spec of {facts.title} has not taken effect: {message}",
        evidence=(quoted,),
        fix="correct what the message names",
    )


def _restarting(facts: Facts, condition: Condition, trouble: Explanation | None) -> Explanation:
    found = _restart(facts, condition, trouble)
    delays = _DELAY.findall(condition.message)
    if not delays or delays[-1] in found.text:
        return found
    return replace(found, text=f"{found.text} It is {delays[-1]}, because it has failed before.")


def _restart(facts: Facts, condition: Condition, trouble: Explanation | None) -> Explanation:
    quoted = _quoted(condition)
    if condition.reason == Cause.NO_PROGRESS.value:
        return Explanation(
            cause="restarted-for-no-progress",
            text=f"{facts.title} is restarted, because it made no progress: "
            f"{brief(condition.message)}",
            evidence=(quoted,),
            fix=f"look at the logs before the restart: traincrew logs {facts.job.metadata.name} -p",
        )
    if trouble is not None:
        return replace(trouble, evidence=(*trouble.evidence, quoted))
    return Explanation(
        cause="restarting",
        text=f"{facts.title} is restarting: {brief(condition.message)}",
        evidence=(quoted, f"status.restarts: {facts.job.status.restarts}"),
        fix="wait; if it repeats, look at the logs of the pods",
    )


def _running(facts: Facts, condition: Condition, trouble: Explanation | None) -> Explanation:
    quoted = _quoted(condition)
    if trouble is not None and trouble.cause == ending.KEPT:
        return trouble
    if trouble is not None:
        text = f"{facts.title} runs, but not with all of its pods. {trouble.text}"
        return replace(trouble, text=text, evidence=(*trouble.evidence, quoted))
    if (stalled := advancing.not_advancing(facts)) is not None:
        return replace(stalled, evidence=(*stalled.evidence, quoted))
    if (over := ending.failing(facts)) is not None:
        return replace(over, evidence=(*over.evidence, quoted))
    if (hangs := silent.silent(facts)) is not None:
        return replace(hangs, evidence=(*hangs.evidence, quoted))
    if (fewer := queues.fewer(facts)) is not None:
        return replace(fewer, evidence=(*fewer.evidence, quoted))
    fitted = facts.job.status.true("Fitted")
    if fitted is not None:
        return Explanation(
            cause="fewer-workers",
            text=f"{facts.title} trains with fewer workers than it asks for: "
            f"{brief(fitted.message)}",
            evidence=(_quoted(fitted),),
            fix="nothing, more workers join when there is room",
        )
    return Explanation(
        cause="running",
        text=f"{facts.title} is running: {brief(condition.message)}",
        evidence=(quoted,),
    )


def _waiting(facts: Facts) -> Explanation:
    status = job_state(facts.job)
    quoted = f"status: {status.reason}: {brief(status.message)}"
    if not facts.pods_known:
        return Explanation(
            cause="pods-not-readable",
            text=f"{facts.title} waits for its pods ({brief(status.message)}). Why they do not run "
            "is not known, because they may not be read.",
            evidence=(quoted,),
            fix="ask somebody who may list pods, or for that right",
        )
    up = sum(pod.status.phase == "Running" for pod in facts.pods)
    desired = sum(facts.kind.roles(facts.job.spec).values())
    if 0 < up < desired:
        return Explanation(
            cause="waiting-for-peers",
            text=f"{facts.title} waits until all of its pods run: {up} of {desired} do, and the "
            f"others are starting ({brief(status.message)}).",
            evidence=(quoted,),
            fix="wait; the pods that run wait for the others at the rendezvous or for the hostfile",
        )
    return Explanation(
        cause="starting",
        text=f"{facts.title} is starting: {brief(status.message)}",
        evidence=(quoted,),
        fix="wait a moment",
    )


# -- pods -----------------------------------------------------------------------------------------

_CHECKS: tuple[Callable[[Facts, Pod, str], Explanation | None], ...] = (
    ending.stuck,
    placing.unplaced,
    starting.not_running,
    starting.not_ready,
)


def _worst_of_all(facts: Facts) -> Explanation | None:
    """Explain what keeps a pod from running; of several causes, the hardest one to fix."""
    for check in _CHECKS:
        found = _worst(facts, check)
        if found is not None:
            return found
    gone = [pod for pod in facts.pods if pod.status.phase != "Succeeded"]
    return _failed_pod(facts) if gone and facts.job.status.true("Restarting") else None


def _failed_pod(facts: Facts) -> Explanation | None:
    """Explain the pod by which the job has failed, as all views do; else any that has failed."""
    first = explaining(facts.kind, facts.job, [known(pod) for pod in facts.pods])
    return _worst(facts, ending.failed_pod, first.pod if first is not None else None)


def _worst(
    facts: Facts,
    check: Callable[[Facts, Pod, str], Explanation | None],
    first: Pod | None = None,
) -> Explanation | None:
    """Explain the first pod with a trouble, and count those with the same one.

    Args:
        facts: The job and its pods.
        check: Explains the trouble of a pod.
        first: The pod to begin with, before the others in the order of their places.
    """
    found = []
    for pod in sorted(facts.pods, key=lambda pod: (pod is not first, _place(facts, pod))):
        explanation = check(facts, pod, f"Pod {pod.metadata.name} of {facts.title}")
        if explanation is not None:
            found.append(explanation)
    if not found:
        return None
    same = sum(one.cause == found[0].cause for one in found) - 1
    if not same:
        return found[0]
    others = "another pod has" if same == 1 else f"{same} other pods have"
    return replace(found[0], text=f"{found[0].text} The same problem: {others} it.")


def _place(facts: Facts, pod: Pod) -> tuple[int, int, str]:
    """Return a sort key: roles in the order of the kind, newest pods of a place first."""
    place = place_of(facts.kind, pod)
    roles = list(facts.kind.roles(facts.job.spec))
    number = roles.index(place.role) if place.role in roles else len(roles)
    return number, place.rank, pod.metadata.name


def _quoted(condition: Condition) -> str:
    words = f"{condition.reason}: {brief(condition.message)}"
    return f"condition {condition.type}={condition.status}: {words}"
