"""CEL rules, columns and status that the kinds of training-operator v1 have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.api.kind import (
    AGE,
    COUNT,
    JOB_NAME_RULE,
    MESSAGE,
    PROGRESS,
    REASON,
    Column,
    Rule,
    StatusWords,
    manager_rules,
)
from traincrew.api.podtemplate import has_container
from traincrew.api.trainingoperator.types import MANAGER, MAX_HOST_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


MANAGED_BY = manager_rules(MANAGER)
"""Rules over ``spec`` about who manages a job."""


def template_rules(field: str, types: Sequence[str], container: str) -> Iterator[Rule]:
    """Yield the rules over ``spec`` about the templates of its replicas.

    Args:
        field: The field with the replicas.
        types: Their types.
        container: The container that trains.
    """
    for name in types:
        yield Rule(
            rule=_of_type(field, name, has_container(f"self.{field}.{name}.template", container)),
            message=(
                f"{field}.{name}.template.spec.containers must have a container named"
                f" '{container}': rename the one that trains"
            ),
        )
    for name in types:
        yield Rule(
            rule=_of_type(
                field,
                name,
                f"self.{field}.{name}.template.spec.containers.all(c,"
                " has(c.image) && c.image != '')",
            ),
            message=f"{field}.{name}.template.spec.containers must have an image each",
        )


def _of_type(field: str, name: str, condition: str) -> str:
    """Return a CEL expression that is true if there are no replicas of a type."""
    return f"!('{name}' in self.{field}) || {condition}"


def name_rules(shortest: str) -> tuple[Rule, ...]:
    """Return the rules over the whole object about its name.

    Args:
        shortest: The type with the shortest name.
    """
    most = MAX_HOST_NAME - len(f"-{shortest}-0")
    return (
        JOB_NAME_RULE,
        Rule(
            rule=f"size(self.metadata.name) <= {most}",
            message=(
                f"metadata.name must have at most {most} characters, because pods are named"
                " <name>-<type>-<index>"
            ),
        ),
    )


COLUMNS = (
    Column(name="State", type="string", json_path=".status.phase"),
    PROGRESS,
    AGE,
    REASON,
    MESSAGE,
)


def status(replicas: str) -> StatusWords:
    """Return the descriptions of ``status``.

    Args:
        replicas: Description of ``replicaStatuses``.
    """
    return StatusWords(
        start_time="Time at which the job was accepted, or resumed.",
        replicas=replicas,
        numbers={
            "active": "Number of pods that are running, terminating ones included.",
            "ready": "Number of pods that are ready.",
            "succeeded": "Number of pods that succeeded.",
            "failed": "Number of failed pods that still exist.",
            "restarts": "Number of restarts of pods and containers.",
            "selector": "Label selector of these pods, for autoscalers.",
        },
        fields={
            "failures": {
                **COUNT,
                "description": "Number of failed pods that were recreated. It never decreases.",
            },
        },
        condition_times=("lastUpdateTime", "lastTransitionTime"),
    )
