"""Events about these pods and their Services, in the words of kubeflow/common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.plan.shared import lifecycle, podrecords
from traincrew.plan.shared.model import ChildKey, Event
from traincrew.plan.shared.replicas.states import FAILURES, exit_code

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from traincrew.plan.shared.kind import Written
    from traincrew.plan.shared.lifecycle import Status
    from traincrew.plan.shared.podrecords import PodRecord
    from traincrew.plan.shared.replicas.counts import Observed

_MAX_NAMES = 8
"""An event that reports more objects names only the first and the last of them."""


def transitions(
    before: Status, after: Status, expected: Collection[str], suspended: tuple[str, str]
) -> list[Event]:
    """Return events for conditions that have changed their status.

    Args:
        before: The status as stored.
        after: The status now.
        expected: Reasons of failures that kubeflow/common reports; its events of them are Normal.
        suspended: The reasons of a job that is suspended, and of one that is resumed.
    """
    found = _transitions(before, after, expected, suspended)
    return [*found, *lifecycle.advance_events(before, after)]


def _transitions(
    before: Status, after: Status, expected: Collection[str], suspended: tuple[str, str]
) -> Iterator[Event]:
    for condition in after.conditions:
        if condition.is_true == before.holds(condition.type):
            continue
        if condition.type == lifecycle.SUCCEEDED:
            yield Event("Normal", condition.reason, condition.message)
        elif condition.type == lifecycle.FAILED:
            known = condition.reason in expected
            yield Event("Normal" if known else "Warning", condition.reason, condition.message)
        elif condition.type == lifecycle.RESTARTING and condition.is_true:
            yield Event("Warning", condition.reason, condition.message)
        elif condition.type == lifecycle.SUSPENDED and not after.finished:
            word = suspended[0] if condition.is_true else suspended[1]
            yield Event("Normal", word, condition.message)


def exits(
    current: Observed, namespace: str, known: Mapping[str, PodRecord], named: Collection[str]
) -> list[Event]:
    """Return events with the exit codes of pods whose failure is not recorded yet."""
    found = []
    for place, state in current.states.items():
        pod, record = current.pod(place), known.get(place.key)
        if pod is None or state not in FAILURES:
            continue
        if record is not None and record.failed and podrecords.is_of(record, pod):
            continue
        if (code := exit_code(pod, named)) is not None:
            text = f"Pod: {namespace}.{pod.metadata.name} exited with code {code}"
            found.append(Event("Normal", "ExitedWithCode", text))
    return found


def replaced_policy(
    path: str,
    ours: str | None,
    template: str | None,
    reason: str = "SettedPodTemplateRestartPolicy",
) -> list[Event]:
    """Warn that the restart policy of replicas overrides the one of their template.

    Args:
        path: Path of the replicas.
        ours: Their restart policy, as written.
        template: Their template's, as written.
        reason: Reason of the event: kubeflow/common's, by default.
    """
    if not (ours and template):
        return []
    text = (
        f"{path}.template.spec.restartPolicy: {template} is not used, because"
        f" {path}.restartPolicy is {ours}"
    )
    return [Event("Warning", reason, text)]


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
