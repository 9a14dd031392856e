"""Validates what the kinds of training-operator v1 have in common: names and templates.

The schema's rules are repeated here, because a job may have been stored by another schema: that of
training-operator leaves most of it to webhooks and to the operator.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from traincrew.api.kind import JOB_NAME
from traincrew.api.meta import Problem
from traincrew.api.trainingoperator.types import MAX_HOST_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from traincrew.api.trainingoperator.types import ReplicaSpecs


def name_problems(name: str, replicas: ReplicaSpecs) -> Iterator[Problem]:
    """Yield what is wrong with the name of a job, from which those of its pods are made."""
    if not re.fullmatch(JOB_NAME, name):
        yield Problem(
            "metadata.name",
            "it becomes part of host names: it must begin with a letter and have only lower case"
            " letters, digits and '-'; choose another name",
        )
    longest = max(
        (f"{name}-{kind.lower()}-{each.count - 1}" for kind, each in replicas.items()),
        key=len,
        default="",
    )
    if len(longest) > MAX_HOST_NAME:
        yield Problem(
            "metadata.name",
            f"the pod {longest} would have a name of {len(longest)} characters; at most"
            f" {MAX_HOST_NAME} are possible; shorten the name of the job",
        )


def template_problems(path: str, template: dict[str, Any], container: str) -> Iterator[Problem]:
    """Yield what is wrong with the containers of a template.

    Args:
        path: Path of the replicas.
        template: Their template.
        container: The container that trains.
    """
    path = f"{path}.template.spec.containers"
    pod = template.get("spec")
    given = pod.get("containers") if isinstance(pod, dict) else None
    containers = [each for each in given or () if isinstance(each, dict)]
    if not containers:
        yield Problem(path, f"at least one container is required, named {container}")
        return
    names = Counter(str(each.get("name", "")) for each in containers)
    if container not in names:
        there = ", ".join(map(repr, names))
        yield Problem(
            path, f"no container is named {container}, only {there}; rename the one that trains"
        )
    for name, count in names.items():
        if count > 1:
            yield Problem(path, f"{count} containers are named '{name}'; rename all but one")
    for index, each in enumerate(containers):
        if not each.get("image"):
            yield Problem(f"{path}[{index}].image", "it is required; write the name of an image")
