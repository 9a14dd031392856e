"""Reasons and events of such a job, in the words of kubeflow/common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from traincrew.plan.shared import lifecycle, podrecords
from traincrew.plan.shared.model import ChildKey, Event
from traincrew.plan.shared.replicas.states import FAILURES, exit_code

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from traincrew.plan.shared.kind import Written
    from traincrew.plan.shared.lifecycle import Status
    from traincrew.plan.shared.podrecords import PodRecord
    from traincrew.plan.shared.replicas.observed import ObservedReplicas
    from traincrew.plan.shared.replicas.places import Replicas

_MAX_NAMES = 8
"""An event that reports more objects names only the first and the last of them."""


class Words(Struct, frozen=True, kw_only=True):
    """How a kind words what all such kinds report.

    Attributes:
        kind: The kind.
        expected: Reasons of failures that kubeflow/common reports; its events of them are Normal.
        suspension: The reasons of events of a job that is suspended, and of one that is resumed.
        replaced: The reason of the event of a restart policy in a template, which is overridden.
        waiting: The reason of a job whose pods do not run yet.
        pods: What the pods are called that the job waits for.
        name: What the kind is called in messages about failed pods, if not by its name.
    """

    kind: str
    expected: frozenset[str]
    suspension: tuple[str, str]
    replaced: str
    waiting: str = "WaitingForPods"
    pods: str = "pods"
    name: str = ""

    @property
    def noun(self) -> str:
        """What the kind is called in messages about failed pods."""
        return self.name or self.kind

    @property
    def running(self) -> str:
        """The reason of a job that runs."""
        return f"{self.kind}Running"

    @property
    def restarting(self) -> str:
        """The reason of a job with pods that are restarted."""
        return f"{self.kind}Restarting"

    @property
    def succeeded(self) -> str:
        """The reason of a job that has succeeded."""
        return f"{self.kind}Succeeded"


def transitions(before: Status, after: Status, words: Words) -> list[Event]:
    """Return events for conditions that have changed their status.

    Args:
        before: The status as stored.
        after: The status now.
        words: Those of the kind.
    """
    return [*_transitions(before, after, words), *lifecycle.advance_events(before, after)]


def _transitions(before: Status, after: Status, words: Words) -> Iterator[Event]:
    for condition in after.conditions:
        if condition.is_true == before.holds(condition.type):
            continue
        if condition.type == lifecycle.SUCCEEDED:
            yield Event("Normal", condition.reason, condition.message)
        elif condition.type == lifecycle.FAILED:
            known = condition.reason in words.expected
            yield Event("Normal" if known else "Warning", condition.reason, condition.message)
        elif condition.type == lifecycle.RESTARTING and condition.is_true:
            yield Event("Warning", condition.reason, condition.message)
        elif condition.type == lifecycle.SUSPENDED and not after.finished:
            yield Event("Normal", words.suspension[not condition.is_true], condition.message)


def exits(current: ObservedReplicas, namespace: str, known: Mapping[str, PodRecord]) -> list[Event]:
    """Return events with the exit codes of pods whose failure is not recorded yet."""
    found = []
    for place, state in current.states.items():
        pod, record = current.pod(place), known.get(place.key)
        if pod is None or state not in FAILURES:
            continue
        if record is not None and record.failed and podrecords.is_of(record, pod):
            continue
        if (code := exit_code(pod, current.named)) is not None:
            text = f"Pod: {namespace}.{pod.metadata.name} exited with code {code}"
            found.append(Event("Normal", "ExitedWithCode", text))
    return found


def replaced_policies(path: str, replicas: Mapping[str, Replicas], reason: str) -> list[Event]:
    """Warn that the restart policies of replicas override those of their templates.

    Args:
        path: Path of the replicas.
        replicas: The desired pods, by type.
        reason: Reason of the events.
    """
    found = []
    for name, each in sorted(replicas.items()):
        template = each.template.get("spec", {}).get("restartPolicy")
        if each.restart_policy and template:
            text = (
                f"{path}.{name}.template.spec.restartPolicy: {template} is not used, because"
                f" {path}.{name}.restartPolicy is {each.restart_policy}"
            )
            found.append(Event("Warning", reason, text))
    return found


def written(kind: str, what: Written, keys: Sequence[ChildKey]) -> list[Event]:
    """Return events for children that were created or deleted, or the job that was deleted.

    One object is reported as by kubeflow/common; several of a kind share one event.

    Args:
        kind: The kind of the job.
        what: What happened.
        keys: To which objects.
    """
    verb = f"{what}d"
    by_kind: dict[str, list[str]] = {}
    for key in keys:
        by_kind.setdefault("Job" if key.kind == kind else key.kind, []).append(key.name)
    found = []
    for noun, names in by_kind.items():
        subject = noun.lower() if len(names) == 1 else f"{len(names)} {noun.lower()}s"
        listed = ", ".join(names)
        if len(names) > _MAX_NAMES:
            listed = f"{names[0]} ... {names[-1]}"
        found.append(Event("Normal", f"Successful{what}{noun}", f"{verb} {subject}: {listed}"))
    return found
