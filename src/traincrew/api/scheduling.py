"""Checks ``schedulingPolicy``, which is the same on every kind (`traincrew.api.runpolicy`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from traincrew.api.meta import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.api.runpolicy import SchedulingPolicy

QUANTITY = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?"
"""A resource quantity that is not negative
(https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/)."""
NAME = r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
MAX_NAME = 253


def problems(policy: SchedulingPolicy, path: str, pods: int) -> Iterator[Problem]:
    """Yield what is invalid in a policy, each with its field and the fix.

    Args:
        policy: The policy.
        path: Path of the policy in the job.
        pods: Number of pods that the job asks for.
    """
    least = policy.min_available
    if least is not None and least > pods:
        yield Problem(
            f"{path}.minAvailable",
            f"{least} is more than the number of pods, {pods}: they would wait forever; write at"
            f" most {pods}",
        )
    for name, value in (("queue", policy.queue), ("priorityClass", policy.priority_class)):
        if value is not None and not (re.fullmatch(NAME, value) and len(value) <= MAX_NAME):
            yield Problem(
                f"{path}.{name}",
                f"{value!r} is not the name of an object; write lower case letters, digits, '-'"
                " and '.', or remove the field",
            )
    for resource, quantity in sorted((policy.min_resources or {}).items()):
        if not re.fullmatch(QUANTITY, str(quantity)):
            yield Problem(
                f"{path}.minResources.{resource}",
                f"{quantity!r} is not a quantity; write a number with a unit, such as 4, 500m or"
                " 16Gi",
            )
