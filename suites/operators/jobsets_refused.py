"""JobSets, and changes of them, that JobSet and ours refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suites.operators.jobsets import (
    AFTER,
    DRIVER,
    ELSEWHERE,
    claims,
    jobset,
    mounting,
    replicated,
    rules,
    with_job,
)

if TYPE_CHECKING:
    from suites.operators.beside import Document

_COORDINATOR = {"replicatedJob": "workers"}
_RULE: Document = {"action": "FailJobSet", "name": "same"}
BROKEN: dict[str, tuple[Document, str]] = {
    "1-name": (jobset(replicated()), "name"),
    "long" * 16: (jobset(replicated()), "JobSet name is too long"),
    "target": (
        jobset(replicated(), successPolicy={"operator": "All", "targetReplicatedJobs": ["no"]}),
        "eplicatedJobs",
    ),
    "rule-target": (
        jobset(replicated(), failurePolicy=rules({**_RULE, "targetReplicatedJobs": ["no"]})),
        "eplicatedJobs",
    ),
    "first": (
        jobset(replicated(dependsOn=[AFTER]), DRIVER),
        "DependsOn can't be set for the first ReplicatedJob",
    ),
    "orders": (
        jobset(
            DRIVER,
            replicated(dependsOn=[AFTER]),
            startupPolicy={"startupPolicyOrder": "InOrder"},
        ),
        "StartupPolicy and DependsOn APIs are mutually exclusive",
    ),
    "reason": (
        jobset(replicated(), failurePolicy=rules({**_RULE, "onJobFailureReasons": ["No"]})),
        "recognized job failure reason",
    ),
    "twice": (jobset(replicated(), failurePolicy=rules(_RULE, _RULE)), "rule names are not unique"),
    "rule-name": (jobset(replicated(), failurePolicy=rules({**_RULE, "name": "1"})), "name"),
    "in-place": (
        jobset(replicated(), failurePolicy={"restartStrategy": "InPlaceRestart"}),
        "InPlaceRestart restart strategy cannot be set when InPlaceRestart feature gate",
    ),
    "nobody": (
        jobset(replicated(), coordinator={"replicatedJob": "no"}),
        "coordinator replicatedJob",
    ),
    "job-index": (
        jobset(replicated(pods=2), coordinator={**_COORDINATOR, "jobIndex": 1}),
        "coordinator job index",
    ),
    "pod-index": (
        jobset(replicated(pods=2), coordinator={**_COORDINATOR, "podIndex": 2}),
        "coordinator pod index",
    ),
    "completions": (jobset(replicated(), coordinator=_COORDINATOR), "indexed completion mode"),
    "manager": (jobset(replicated(), managedBy="me"), "managedBy"),
    "subdomain": (jobset(replicated(), network={"subdomain": "In_side"}), "subdomain"),
    "group": (jobset(replicated(groupName="Upper")), "groupName"),
    "operator": (jobset(replicated(), successPolicy={"operator": "Some"}), "operator"),
    "product": (
        jobset(with_job(replicated(replicas=2), parallelism=2**31 - 1)),
        "the product of replicas and parallelism",
    ),
    "claims-twice": (
        jobset(mounting(replicated(), "a"), volumeClaimPolicies=claims("a", "a")),
        "names must be unique for VolumeClaimPolicies template",
    ),
    "claims-name": (jobset(mounting(replicated(), "A"), volumeClaimPolicies=claims("A")), "name"),
    "claims-long": (
        jobset(mounting(replicated(), "a" * 60), volumeClaimPolicies=claims("a" * 60)),
        "VolumeClaimPolicies template name is too long",
    ),
    "claims-retention": (
        jobset(mounting(replicated(), "a"), volumeClaimPolicies=claims("a", whenDeleted="Never")),
        "whenDeleted",
    ),
}
"""Specs that both refuse, and a word that both say."""
_JOBS = "/spec/replicatedJobs/0"
CHANGES: dict[str, tuple[str, Document]] = {
    "replicas": ("defaults", {"path": f"{_JOBS}/replicas", "value": 2}),
    "image": (
        "suspended",
        {"path": f"{_JOBS}/template/spec/template/spec/containers/0/image", "value": "busybox:2"},
    ),
    "limit": ("suspended", {"path": f"{_JOBS}/template/spec/backoffLimit", "value": 2}),
    "selector": (
        "defaults",
        {"path": f"{_JOBS}/template/spec/template/spec/nodeSelector", "value": {"a": "b"}},
    ),
    "policy": ("restarted", {"path": "/spec/failurePolicy/maxRestarts", "value": 5}),
    "manager": ("managed", {"path": "/spec/managedBy", "value": ELSEWHERE}),
    "claims": ("claims", {"path": "/spec/volumeClaimPolicies/-", "value": claims("new")[0]}),
}
"""Changes that both refuse, of a case."""
