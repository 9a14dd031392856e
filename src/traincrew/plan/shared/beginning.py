"""Which statuses may wait when many jobs begin at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.plan.shared.lifecycle import CREATED, RUNNING, own_conditions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traincrew.plan.shared.lifecycle import Status

_BEGINNING = frozenset({(CREATED, "True"), (RUNNING, "False"), (RUNNING, "True")})


def is_beginning(before: Mapping[str, Any], after: Mapping[str, Any], kind: type[Status]) -> bool:
    """Whether no condition changes except that the job is created, or runs.

    When many jobs begin, these changes may wait for the children of all. The end of a job, a
    problem or the effect of an edit may not.
    """
    old, new = own_conditions(before, kind), own_conditions(after, kind)
    return (
        before.get("observedGeneration") in {None, after.get("observedGeneration")}
        and old - new <= {(RUNNING, "False")}
        and new - old <= _BEGINNING
    )
