"""The status of a JobSet: what it stores, and how it is written in the words of JobSet."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, field

from traincrew.plan.shared import lifecycle
from traincrew.plan.shared.lifecycle import Status

IN_PROGRESS = "StartupPolicyInProgress"
IN_ORDER = "StartupPolicyCompleted"
COMPLETED = "Completed"
RESTARTING = "RestartingJobSet"

SUSPENDED_TEXT = ("SuspendedJobs", "jobset is suspended")
RESUMED_TEXT = ("ResumeJobs", "jobset is resumed")
COMPLETED_TEXT = ("AllJobsCompleted", "jobset completed successfully")
READY_TEXT = ("JobsReady", "all jobs are ready")
"""Reasons and messages of conditions (``pkg/constants``)."""


class ReplicatedJobStatus(Struct, rename="camel", kw_only=True):
    """The Jobs of one replicated job, by state."""

    name: str
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    active: int = 0
    suspended: int = 0
    job_restarts: list[int] | msgspec.UnsetType = msgspec.UNSET
    job_restarts_count_towards_max: list[int] | msgspec.UnsetType = msgspec.UNSET

    def restarts_of(self, index: int) -> int:
        """Return how often one Job was restarted by itself."""
        known = self.job_restarts or []
        return known[index] if index < len(known) else 0


class JobSetStatus(Status, rename="camel", kw_only=True, omit_defaults=True):
    """``status`` of a JobSet."""

    more_conditions = (IN_PROGRESS, IN_ORDER)

    restarts_count_towards_max: int = 0
    terminal_state: str = ""
    replicated_jobs_status: list[ReplicatedJobStatus] = field(default_factory=list)

    def of(self, name: str) -> ReplicatedJobStatus:
        """Return the counts of a replicated job."""
        found = (each for each in self.replicated_jobs_status if each.name == name)
        return next(found, ReplicatedJobStatus(name=name))

    @property
    def counted_restarts(self) -> int:
        """How many restarts count against ``maxRestarts``."""
        single = (
            sum(each.job_restarts_count_towards_max or []) for each in self.replicated_jobs_status
        )
        return self.restarts_count_towards_max + sum(single)


def why_not_restarting(status: Status) -> tuple[str, str]:
    """Return reason and message of a JobSet that is restarting no longer."""
    if status.holds(lifecycle.FAILED):
        return "JobSetFailed", "jobset failed"
    if status.holds(lifecycle.SUCCEEDED):
        return "JobSetCompleted", COMPLETED_TEXT[1]
    if status.holds(lifecycle.SUSPENDED):
        return "JobSetSuspended", SUSPENDED_TEXT[1]
    return READY_TEXT


def document(status: JobSetStatus) -> dict[str, Any]:
    """Return the status as plain data, with the conditions of JobSet beside those of all kinds."""
    ended = ""
    if status.finished:
        ended = lifecycle.FAILED if status.holds(lifecycle.FAILED) else COMPLETED
    plain = {"restarts": 0, **lifecycle.document(status)}
    if ended:
        plain["terminalState"] = ended
    if conditions := plain.get("conditions"):
        plain["conditions"] = _conditions(status, conditions)
    return plain


def _conditions(status: Status, conditions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found, more = [], []
    for each in conditions:
        holds = each["status"] == "True"
        match each["type"]:
            case lifecycle.SUSPENDED:
                found.append(_said(each, *(SUSPENDED_TEXT if holds else RESUMED_TEXT)))
                continue
            case lifecycle.SUCCEEDED:
                more.append({**each, "type": COMPLETED})
            case lifecycle.RESTARTING:
                theirs = {**each, "type": RESTARTING}
                more.append(theirs if holds else _said(theirs, *why_not_restarting(status)))
        found.append(each)
    return [*found, *more]


def _said(condition: dict[str, Any], reason: str, message: str) -> dict[str, Any]:
    return {**condition, "reason": reason, "message": message}
