"""Events of an ElasticJob, in the words of TorchElastic's controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.api.kinds.elasticjob.types import KIND, REASONS
from traincrew.api.reasons import Cause
from traincrew.plan.elasticjob.observed import FAILURES, exit_code
from traincrew.plan.shared import lifecycle, podrecords
from traincrew.plan.shared.model import ChildKey, Event

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from traincrew.api.kinds.elasticjob.types import ElasticJobSpec
    from traincrew.plan.elasticjob.observed import ObservedJob
    from traincrew.plan.shared.kind import Written
    from traincrew.plan.shared.lifecycle import Status
    from traincrew.plan.shared.podrecords import PodRecord

RUNNING = f"{KIND}Running"
RESTARTING = f"{KIND}Restarting"
SUCCEEDED = f"{KIND}Succeeded"
_EXPECTED = {REASONS.word(each) for each in (Cause.PROGRAM, Cause.DEADLINE, Cause.BACKOFF_LIMIT)}
"""Failures that TorchElastic's controller reports; its events of them are Normal."""
COMPONENT = "elastic-job-controller"
"""Source component of the events, as with TorchElastic's controller."""

_MAX_NAMES = 8
"""An event that reports more objects names only the first and the last of them."""


def transitions(before: Status, after: Status) -> list[Event]:
    """Return events for conditions that have changed their status."""
    return [*_transitions(before, after), *lifecycle.advance_events(before, after)]


def _transitions(before: Status, after: Status) -> Iterator[Event]:
    for condition in after.conditions:
        if condition.is_true == before.holds(condition.type):
            continue
        if condition.type == lifecycle.SUCCEEDED:
            yield Event("Normal", condition.reason, condition.message)
        elif condition.type == lifecycle.FAILED:
            known = condition.reason in _EXPECTED
            yield Event("Normal" if known else "Warning", condition.reason, condition.message)
        elif condition.type == lifecycle.RESTARTING and condition.is_true:
            yield Event("Warning", condition.reason, condition.message)
        elif condition.type == lifecycle.SUSPENDED and not after.finished:
            word = lifecycle.SUSPENDED if condition.is_true else "Resumed"
            yield Event("Normal", word, condition.message)


def exits(current: ObservedJob, namespace: str, known: Mapping[str, PodRecord]) -> list[Event]:
    """Return events with the exit codes of pods whose failure is not recorded yet."""
    found = []
    for place, state in current.states.items():
        pod, record = current.pod(place), known.get(place.key)
        if pod is None or state not in FAILURES:
            continue
        if record is not None and record.failed and podrecords.is_of(record, pod):
            continue
        if (code := exit_code(pod)) is not None:
            text = f"Pod: {namespace}.{pod.metadata.name} exited with code {code}"
            found.append(Event("Normal", "ExitedWithCode", text))
    return found


def replaced_policies(spec: ElasticJobSpec) -> list[Event]:
    """Warn that the restart policy of the replicas overrides the template's."""
    return [
        Event(
            "Warning",
            "SettedPodTemplateRestartPolicy",
            f"spec.replicaSpecs.{name}.template.spec.restartPolicy:"
            f" {replica.template['spec']['restartPolicy']} is not used, because"
            f" spec.replicaSpecs.{name}.restartPolicy is {replica.restart_policy}",
        )
        for name, replica in sorted(spec.replica_specs.items())
        if replica.restart_policy and replica.template.get("spec", {}).get("restartPolicy")
    ]


def written(what: Written, keys: Sequence[ChildKey]) -> list[Event]:
    """Return events for children that were created or deleted, or the job that was deleted.

    One object is reported as by TorchElastic's controller; several of a kind share one event.
    """
    verb = f"{what}d"
    by_kind: dict[str, list[str]] = {}
    for key in keys:
        by_kind.setdefault("Job" if key.kind == KIND else key.kind, []).append(key.name)
    found = []
    for kind, names in by_kind.items():
        subject = kind.lower() if len(names) == 1 else f"{len(names)} {kind.lower()}s"
        listed = ", ".join(names)
        if len(names) > _MAX_NAMES:
            listed = f"{names[0]} ... {names[-1]}"
        found.append(Event("Normal", f"Successful{what}{kind}", f"{verb} {subject}: {listed}"))
    return found
