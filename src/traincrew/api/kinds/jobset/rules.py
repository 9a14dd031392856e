"""Validates a JobSet: each problem names the field, what is wrong, and the fix.

The rules of the definition are repeated here as far as a plan depends on them, because a JobSet may
have been stored by another definition: JobSet's own leaves most of it to a webhook.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from traincrew.api.kinds.jobset import patterns
from traincrew.api.kinds.jobset.claims import CLAIM_NAME, claim_name
from traincrew.api.kinds.jobset.policies import FAILURE_REASONS, MAX_LABEL, FailurePolicy
from traincrew.api.kinds.jobset.types import LABEL, MAX_PODS, MAX_RESTARTED, JobSetSpec
from traincrew.api.meta import ObjectMeta, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_JOBS = "spec.replicatedJobs"
_POLICY = "spec.failurePolicy"
_CLAIMS = "spec.volumeClaimPolicies"


def problems(metadata: ObjectMeta, spec: JobSetSpec) -> list[Problem]:
    """Return everything that keeps a JobSet from running, each with its field and the fix."""
    found = [*_name_problems(metadata.name, spec), *_order_problems(spec), *_size_problems(spec)]
    targets = spec.success.target_replicated_jobs
    found += _unknown(spec, "spec.successPolicy.targetReplicatedJobs", targets)
    if spec.failure_policy is not None:
        found += _failure_problems(spec, spec.failure_policy)
    return [*found, *_coordinator_problems(spec), *_claim_problems(metadata.name, spec)]


def _name_problems(name: str, spec: JobSetSpec) -> Iterator[Problem]:
    for given, count in Counter(each.name for each in spec.replicated_jobs).items():
        if count > 1:
            yield Problem(_JOBS, f"{count} are named {given}; rename all but one")
    if not spec.replicated_jobs:
        return
    if not re.fullmatch(LABEL, name):
        yield Problem(
            "metadata.name",
            "it becomes part of host names: it must begin with a letter and have only lower case"
            " letters, digits and '-'; choose another name",
        )
    last = [f"{name}-{each.name}-{max(each.count - 1, 0)}" for each in spec.replicated_jobs]
    longest = max(last, key=len)
    if len(longest) > MAX_LABEL:
        yield Problem(
            "metadata.name",
            f"the Job {longest} would have a name of {len(longest)} characters; at most"
            f" {MAX_LABEL} are possible; shorten the name of the JobSet",
        )


def _order_problems(spec: JobSetSpec) -> Iterator[Problem]:
    before: set[str] = set()
    for index, each in enumerate(spec.replicated_jobs):
        path = f"{_JOBS}[{index}].dependsOn"
        if each.depends_on is not None and (index == 0 or spec.in_order):
            text = "it cannot be set for the first one, or with startupPolicy InOrder; remove it"
            yield Problem(path, text)
        for needed in each.depends_on or ():
            if needed.name not in before:
                yield Problem(path, f"{needed.name} is no earlier replicated job; name one")
        before.add(each.name)


def _size_problems(spec: JobSetSpec) -> Iterator[Problem]:
    counted = spec.failure_policy is not None and spec.failure_policy.restarts_single_jobs
    for index, each in enumerate(spec.replicated_jobs):
        path = f"{_JOBS}[{index}].replicas"
        if each.count * (each.job.get("parallelism") or 1) > MAX_PODS:
            yield Problem(path, f"with its parallelism, pods are more than {MAX_PODS}; lower one")
        if counted and each.count > MAX_RESTARTED:
            text = f"at most {MAX_RESTARTED} Jobs are restarted one by one; lower it"
            yield Problem(path, text)


def _unknown(spec: JobSetSpec, path: str, targets: Iterable[str] | None) -> Iterator[Problem]:
    for target in targets or ():
        if spec.named(target) is None:
            yield Problem(path, f"there is no replicated job {target}; name one of {_JOBS}")


def _failure_problems(spec: JobSetSpec, policy: FailurePolicy) -> Iterator[Problem]:
    if policy.restart_strategy == "InPlaceRestart":
        text = "InPlaceRestart is not possible here; write Recreate or BlockingRecreate"
        yield Problem(f"{_POLICY}.restartStrategy", text)
    names = Counter(rule.name for rule in policy.rules or () if rule.name)
    for name, count in names.items():
        if count > 1:
            yield Problem(f"{_POLICY}.rules", f"{count} are named {name}; rename all but one")
    for index, rule in enumerate(policy.rules or ()):
        path = f"{_POLICY}.rules[{index}]"
        if unknown := sorted(set(rule.on_job_failure_reasons or ()) - set(FAILURE_REASONS)):
            text = f"Jobs do not fail with {', '.join(unknown)}; use {', '.join(FAILURE_REASONS)}"
            yield Problem(f"{path}.onJobFailureReasons", text)
        yield from _unknown(spec, f"{path}.targetReplicatedJobs", rule.target_replicated_jobs)
        for pattern in rule.on_job_failure_message_patterns or ():
            if text := patterns.problem(pattern):
                yield Problem(f"{path}.onJobFailureMessagePatterns", f"{pattern!r}: {text}")


def _claim_problems(jobset: str, spec: JobSetSpec) -> Iterator[Problem]:
    names = Counter(each.metadata.name for each in spec.claims)
    for name, count in names.items():
        if count > 1:
            yield Problem(_CLAIMS, f"{count} templates are named {name}; rename all but one")
        if not re.fullmatch(CLAIM_NAME, name) or len(claim_name(jobset, name)) > MAX_LABEL:
            text = (
                f"{claim_name(jobset, name)} is no possible name of a claim; write at most"
                f" {MAX_LABEL} lower case letters, digits, '-' and '.'"
            )
            yield Problem(_CLAIMS, text)
        if not any(each.mounts(name) for each in spec.replicated_jobs):
            text = f"no container has a volumeMount named {name}; add one, or remove the template"
            yield Problem(_CLAIMS, text)
        for index, each in enumerate(spec.replicated_jobs):
            if any(volume.get("name") == name for volume in each.pod.get("volumes") or ()):
                path = f"{_JOBS}[{index}].template.spec.template.spec.volumes"
                text = f"a template of {_CLAIMS} is named {name} as well; rename one of the two"
                yield Problem(path, text)


def _coordinator_problems(spec: JobSetSpec) -> Iterator[Problem]:
    found = spec.coordinator
    if found is None:
        return
    path, each = "spec.coordinator", spec.named(found.replicated_job)
    if each is None:
        yield from _unknown(spec, f"{path}.replicatedJob", [found.replicated_job])
        return
    completions = each.job.get("completions")
    if not each.is_indexed or completions is None:
        yield Problem(path, f"Jobs of {each.name} must be Indexed and have completions; set both")
    elif (found.pod_index or 0) >= completions:
        yield Problem(f"{path}.podIndex", f"{each.name} has {completions} pods per Job; lower it")
    if (found.job_index or 0) >= each.count:
        yield Problem(f"{path}.jobIndex", f"{each.name} has {each.count} Jobs; lower it")
