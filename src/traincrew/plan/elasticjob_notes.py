"""What users are told about an ElasticJob as events, in the words of TorchElastic's controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.api.elasticjob import KIND
from traincrew.plan import lifecycle, podrecords
from traincrew.plan.elasticjob_facts import TO_REPLACE, State, exit_code
from traincrew.plan.model import ChildKey, Event
from traincrew.plan.runpolicy import JOB_FAILED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Literal

    from traincrew.api.elasticjob import ElasticJobSpec
    from traincrew.plan.elasticjob_facts import Facts
    from traincrew.plan.lifecycle import Status
    from traincrew.plan.podrecords import PodRecord

RUNNING = f"{KIND}Running"
RESTARTING = f"{KIND}Restarting"
SUCCEEDED = f"{KIND}Succeeded"
FAILED = f"{KIND}Failed"
COMPONENT = "elastic-job-controller"
"""Source of events, as users of TorchElastic's controller know it."""

_TOLD_ONE_BY_ONE = 8
"""Of more objects of a kind that come or go together one event tells."""


def transitions(before: Status, after: Status) -> list[Event]:
    """Events for conditions that have flipped."""
    return list(_transitions(before, after))


def _transitions(before: Status, after: Status) -> Iterator[Event]:
    for condition in after.conditions:
        if condition.is_true == before.holds(condition.type):
            continue
        if condition.type == lifecycle.SUCCEEDED:
            yield Event("Normal", condition.reason, condition.message)
        elif condition.type == lifecycle.FAILED:
            known = condition.reason in {FAILED, JOB_FAILED}
            yield Event("Normal" if known else "Warning", condition.reason, condition.message)
        elif condition.type == lifecycle.RESTARTING and condition.is_true:
            yield Event("Warning", condition.reason, condition.message)
        elif condition.type == lifecycle.SUSPENDED and not after.finished:
            word = lifecycle.SUSPENDED if condition.is_true else "Resumed"
            yield Event("Normal", word, condition.message)


def exits(facts: Facts, namespace: str, known: Mapping[str, PodRecord]) -> list[Event]:
    """Exit codes of pods that have failed since they were last recorded."""
    found = []
    for place, state in facts.states.items():
        pod, record = facts.pod(place), known.get(place.key)
        if pod is None or state not in {State.FAILED, *TO_REPLACE}:
            continue
        if record is not None and record.failed and podrecords.is_of(record, pod):
            continue
        if (code := exit_code(pod)) is not None:
            text = f"Pod: {namespace}.{pod.metadata.name} exited with code {code}"
            found.append(Event("Normal", "ExitedWithCode", text))
    return found


def replaced_policies(spec: ElasticJobSpec) -> list[Event]:
    """The template's restart policy gives way to that of the replicas."""
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


def written(what: Literal["Create", "Delete"], keys: Sequence[ChildKey]) -> list[Event]:
    """Children that were made or deleted, or the job that was deleted."""
    verb = f"{what}d"
    by_kind: dict[str, list[str]] = {}
    for key in keys:
        by_kind.setdefault("Job" if key.kind == KIND else key.kind, []).append(key.name)
    found = []
    for kind, names in by_kind.items():
        reason = f"Successful{what}{kind}"
        if len(names) <= _TOLD_ONE_BY_ONE:
            texts = [f"{verb} {kind.lower()}: {name}" for name in names]
        else:
            texts = [f"{verb} {len(names)} {kind.lower()}s: {names[0]} ... {names[-1]}"]
        found += [Event("Normal", reason, text) for text in texts]
    return found
