"""Whether a running job advances, and which of its ranks the others wait for. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from traincrew.plan.shared.advancing import named_rank

if TYPE_CHECKING:
    from traincrew.cli.display.objects import Job

__all__ = ["Behind", "behind"]


class Behind(NamedTuple):
    """The rank that the others wait for.

    Attributes:
        pod: Name of its pod.
        words: How far it is, as its row says it.
    """

    pod: str
    words: str


def behind(job: Job) -> Behind | None:
    """Return the rank that is far behind, or has stopped first; None if the operator names none.

    Its numbers are the newest ones, those of the condition are as they were when it was noticed.
    """
    condition = job.status.false("Progressing")
    named = named_rank(condition.message) if condition is not None else None
    if named is None:
        return None
    words = f"rank {named.rank} {named.verb}"
    ranks = job.status.progress.ranks if job.status.progress is not None else None
    for each in ranks.slowest if ranks is not None else ():
        if ranks is not None and each.rank == named.rank:
            words += f": {each.percentage:g}%, the median is {ranks.median:g}%"
    return Behind(named.pod, words)
