"""Explains jobs whose pods are placed together or not at all (docs/guides/shared-clusters.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.cli.jobview.why.facts import Explanation, brief
from traincrew.plan.shared.gangs.job import NOT_HONORED, WAITING
from traincrew.plan.shared.lifecycle import RELEASED

if TYPE_CHECKING:
    from traincrew.cli.display.objects import Condition
    from traincrew.cli.jobview.why.facts import Facts


def waiting(facts: Facts) -> Explanation | None:
    """Return why the pods of a job wait until there is room for all; None if they do not."""
    running = facts.job.status.false("Running")
    if running is None or running.reason != WAITING:
        return None
    why = brief(running.message)
    return Explanation(
        cause="waiting-for-gang",
        text=f"The pods of {facts.title} wait until there is room for all: {why}",
        evidence=(f"Running {running.reason}: {running.message}",),
        fix="ask for fewer pods or less (schedulingPolicy.minAvailable, resources), or wait for"
        " others to end; kubectl describe podgroups says more",
    )


def released(facts: Facts, condition: Condition) -> Explanation | None:
    """Return why the pods of a job were released; None if something else suspends it."""
    if condition.reason != RELEASED:
        return None
    return Explanation(
        cause="gang-released",
        text=f"{facts.title} has released its pods: {brief(condition.message)}",
        evidence=(f"Suspended {condition.reason}: {condition.message}",),
        fix="wait, or ask for fewer pods; a scheduler of gangs would place all at once"
        " (docs/guides/shared-clusters.md)",
    )


def not_honored(facts: Facts) -> str:
    """Return what of ``schedulingPolicy`` no scheduler honors, as a sentence; empty if nothing."""
    for each in facts.own_events():
        if each.reason == NOT_HONORED:
            return each.message
    return ""
