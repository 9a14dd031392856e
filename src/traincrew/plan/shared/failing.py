"""Which pod explains the failure of a job: one rule for plans and for all that shows a job.

Pods of a job that has failed end one after another: most of them because another one did. The one
that explains it is, of those of the roles that decide (`decides` of
`traincrew.plan.shared.kind.PlannedKind`), the first that has ended. Of several attempts in one
place, the newest counts: the others have been retried.

Once the operator has written into the status which pod it was, that is the one, because it may know
more: which attempt counts, or that a worker came too late to train.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable

__all__ = ["UNKNOWN", "Failed", "explaining", "named", "order"]

T = TypeVar("T")

UNKNOWN = "~"
"""Stands for a time that is not known, and sorts after all others."""
_NAMED = re.compile(r"\bpod (?P<pod>[a-z0-9][-.a-z0-9]*)(?: on node \S+)?(?:: | was deleted)")
"""How `traincrew.plan.shared.pods.failure` and `disruption` begin."""


class Failed(NamedTuple, Generic[T]):
    """A pod that has failed.

    Attributes:
        subject: What the caller knows the pod by.
        role: Its role.
        rank: Its number within the role.
        created: When it was created, RFC 3339.
        ended: When its program ended, RFC 3339; `UNKNOWN` if that is not known.
    """

    subject: T
    role: str
    rank: int
    created: str
    ended: str


def order(ended: str, role: str, rank: int) -> tuple[str, str, int]:
    """Return a sort key of pods that have failed: the first one explains the others.

    Times have whole seconds, so pods that end together are in the order of their places.

    Args:
        ended: When the program of the pod ended, RFC 3339, or `UNKNOWN`.
        role: Its role.
        rank: Its number within the role.
    """
    return ended, role, rank


def explaining(failed: Iterable[Failed[T]], decides: Collection[str]) -> T | None:
    """Return the pod that explains why a job has failed; None if no pod has failed.

    Args:
        failed: The pods that have failed, the older ones of a place first if they were created in
            the same second.
        decides: The roles that decide; all if empty. The failure of another role explains one only
            if no pod of these has failed.
    """
    newest: dict[tuple[str, int], Failed[T]] = {}
    for one in failed:
        before = newest.get((one.role, one.rank))
        if before is None or before.created <= one.created:
            newest[one.role, one.rank] = one
    among = [one for one in newest.values() if one.role in decides] or list(newest.values())
    found = min(among, key=lambda one: order(one.ended, one.role, one.rank), default=None)
    return None if found is None else found.subject


def named(message: str, names: Container[str]) -> str | None:
    """Return the first pod that a status message names as one that failed.

    Args:
        message: The message of a job that has failed.
        names: The names of its pods; texts in the message may name others.
    """
    found = (match["pod"] for match in _NAMED.finditer(message))
    return next((name for name in found if name in names), None)
