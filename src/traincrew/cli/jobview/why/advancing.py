"""Explains jobs that run, but whose reports do not advance, or of which a rank is behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.cli.display.text import one_line
from traincrew.cli.jobview.behind import behind
from traincrew.cli.jobview.pods import place_of
from traincrew.cli.jobview.why.facts import Explanation, brief

if TYPE_CHECKING:
    from traincrew.cli.display.objects import Rank
    from traincrew.cli.jobview.why.facts import Facts

__all__ = ["not_advancing"]


def not_advancing(facts: Facts) -> Explanation | None:
    """Explain a job by its condition ``Progressing``; None if it is not false."""
    found = facts.job.status.false("Progressing")
    if found is None:
        return None
    evidence = [f"condition Progressing=False: {found.reason}: {brief(found.message)}"]
    progress = facts.job.status.progress
    ranks = progress.ranks if progress is not None else None
    if ranks is not None and ranks.slowest:
        slowest = ", ".join(_words(rank) for rank in ranks.slowest)
        evidence.append(
            f"status.progress.ranks: median of {ranks.count} is {ranks.median:g}%; {slowest}"
        )
    late = behind(facts.job)
    pod = late.pod if late is not None else ""
    if not pod and ranks is not None and ranks.slowest:
        pod = ranks.slowest[0].pod
    if found.reason == "RankBehind":
        return Explanation(
            cause="rank-behind",
            text=f"{facts.title} is running, but one rank is far behind the others:"
            f" {brief(found.message)}",
            evidence=tuple(evidence),
            fix=f"look at its log: {_logs(facts, pod)}; compare its node with the others:"
            " a slow disk, a busy or throttled accelerator, more data than the other ranks have",
        )
    return Explanation(
        cause="not-advancing",
        text=f"{facts.title} is running, but does not advance: {brief(found.message)}",
        evidence=tuple(evidence),
        fix=f"look at the log: {_logs(facts, pod)}; if it is only slow, raise"
        " progressDeadlineSeconds or report more often; to end it even while it prints, set"
        " progressSource to Reports",
    )


def _words(rank: Rank) -> str:
    return f"rank {rank.rank} in pod {one_line(rank.pod)} {rank.percentage:g}%"


def _logs(facts: Facts, name: str) -> str:
    """Return the command that shows the log of the pod of this name, else of all pods."""
    command = f"traincrew logs {facts.job.metadata.name}"
    for pod in facts.pods:
        if pod.metadata.name == name:
            place = place_of(facts.kind, pod)
            return f"{command} --role {place.role} --rank {place.rank}"
    return command
