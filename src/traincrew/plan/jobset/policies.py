"""What follows from Jobs that have ended: the success policy and the failure policy."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from traincrew.api.kinds.jobset.policies import (
    FAILED_JOBS,
    IGNORES_LIMIT,
    MAX_RESTARTS_REACHED,
    OF_ONE_JOB,
    FailurePolicy,
    FailurePolicyRule,
)
from traincrew.plan.jobset.observed import replicated

if TYPE_CHECKING:
    from traincrew.api.kinds.jobset.types import JobSetSpec
    from traincrew.plan.jobset.observed import ObservedJobs
    from traincrew.plan.jobset.views import ReplicatedJobView

MAX_MESSAGE = 512
"""Characters of a Job's message in which patterns are looked for."""


class Failure(Struct, frozen=True, kw_only=True):
    """What follows from a failed Job.

    Attributes:
        job: The Job that decides.
        ends: The reason with which the JobSet fails; empty if something is restarted.
        single: Whether only this Job is restarted.
        counts: Whether the restart counts against ``maxRestarts``.
        action: The action, for the reason of an event.
        why: The rule, for the reason of a condition.
        message: For people.
    """

    job: ReplicatedJobView
    ends: str = ""
    single: bool = False
    counts: bool = False
    action: str = ""
    why: str = ""
    message: str = ""


def failure(spec: JobSetSpec, jobs: ObservedJobs) -> Failure | None:
    """Return what follows from the Jobs that have failed; None if none has."""
    failed = jobs.failed
    if not failed:
        return None
    policy = spec.failure_policy
    if policy is None:
        text = _naming("jobset failed due to one or more job failures", failed[0])
        return Failure(job=failed[0], ends=FAILED_JOBS, message=text)
    rule, job = _matching(policy, failed)
    action = policy.rules[rule].action if rule is not None and policy.rules else "RestartJobSet"
    if action == "FailJobSet":
        text = _naming("applying FailJobSet failure policy action", job)
        return Failure(job=job, ends="FailJobSetFailurePolicyAction", message=text)
    counts = action not in IGNORES_LIMIT
    if counts and jobs.stored.counted_restarts >= (policy.max_restarts or 0):
        text = _naming("jobset failed due to reaching max number of restarts", job)
        return Failure(job=job, ends=MAX_RESTARTS_REACHED, message=text)
    why = "DefaultFailurePolicy" if rule is None else f"FailurePolicy_{policy.name_of(rule)}"
    return Failure(
        job=job,
        single=action in OF_ONE_JOB,
        counts=counts,
        action=f"{action}FailurePolicyAction",
        why=why,
        message=_naming(f"applying {action} failure policy action", job),
    )


def _naming(text: str, job: ReplicatedJobView) -> str:
    return f"{text} (first failed job: {job.metadata.name})"


def _matching(
    policy: FailurePolicy, failed: list[ReplicatedJobView]
) -> tuple[int | None, ReplicatedJobView]:
    """Return the index of the first rule that matches a failed Job, and the first such Job."""
    for index, rule in enumerate(policy.rules or []):
        for job in failed:
            if _matches(rule, job):
                return index, job
    return None, failed[0]


def _matches(rule: FailurePolicyRule, job: ReplicatedJobView) -> bool:
    condition = job.condition("Failed") or {}
    reasons, patterns = rule.on_job_failure_reasons, rule.on_job_failure_message_patterns
    message = str(condition.get("message") or "")[:MAX_MESSAGE]
    targets = rule.target_replicated_jobs
    return (
        (not reasons or condition.get("reason") in reasons)
        and (not patterns or any(re.search(each, message) for each in patterns))
        and (not targets or replicated(job) in targets)
    )


def has_succeeded(spec: JobSetSpec, jobs: ObservedJobs) -> bool:
    """Return whether the Jobs that have succeeded are enough."""
    targets = spec.success.target_replicated_jobs
    count = sum(not targets or replicated(job) in targets for job in jobs.succeeded)
    if spec.success.operator == "Any":
        return count >= 1
    selected = [each for each in spec.replicated_jobs if not targets or each.name in targets]
    # As by JobSet, a set without Jobs does not end.
    return count >= sum(each.count for each in selected) and bool(jobs.succeeded)
