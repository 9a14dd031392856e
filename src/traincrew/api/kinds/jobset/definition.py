"""JobSet: its definition; rules over several fields, printer columns."""

from __future__ import annotations

from typing import Any

from traincrew.api.kind import (
    AGE,
    COUNT,
    MESSAGE,
    PROGRESS,
    REASON,
    Column,
    Kind,
    Manager,
    Project,
    Rule,
    StatusWords,
    rules,
)
from traincrew.api.kinds.jobset.immutable import update_rules
from traincrew.api.kinds.jobset.policies import FAILURE_REASONS, MAX_LABEL, OF_ONE_JOB
from traincrew.api.kinds.jobset.types import (
    GROUP,
    KIND,
    LABEL,
    MANAGER,
    MAX_PODS,
    MAX_RESTARTED,
    PLURAL,
    REASONS,
    VERSION,
    JobSetSpec,
)

PROJECT = Project(
    name="JobSet",
    # config/default/kustomization.yaml and charts/jobset of JobSet; both set this label.
    deployments="app.kubernetes.io/name=jobset",
    # api/config/v1alpha1/defaults.go; releases with other labels have it, too
    lease="6d4f6a47.jobset.x-k8s.io",
)
_JOBS = "self.?replicatedJobs.orValue([])"
_NAMES = f"{_JOBS}.map(r, r.name)"
_COUNT = "{}.?replicas.orValue(1)"
_ONE = " || ".join(f"u.action == '{action}'" for action in OF_ONE_JOB)
_POLICY = "self.?failurePolicy"
_RULES = f"{_POLICY}.rules.orValue([])"
_COORDINATOR = "has(self.coordinator)"
_THE_JOB = f"{_JOBS}.exists(r, r.name == self.coordinator.replicatedJob && {{}})"


def _known(where: str, targets: str) -> Rule:
    return Rule(
        rule=targets,
        message=f"{where} must have names of replicatedJobs",
    )


def _coordinated(condition: str) -> str:
    return f"!{_COORDINATOR} || {_THE_JOB.format(condition)}"


_START_RULES = (
    Rule(
        rule="!(self.?startupPolicy.startupPolicyOrder.orValue('') == 'InOrder' &&"
        f" {_JOBS}.exists(x, has(x.dependsOn)))",
        message="StartupPolicy and DependsOn APIs are mutually exclusive",
    ),
    Rule(
        rule=f"size({_JOBS}) == 0 || !has({_JOBS}[0].dependsOn)",
        message="DependsOn can't be set for the first ReplicatedJob",
    ),
    Rule(
        rule=f"{_JOBS}.all(r, r.?dependsOn.orValue([]).all(d, d.name in {_NAMES} &&"
        f" {_NAMES}.indexOf(d.name) < {_NAMES}.indexOf(r.name)))",
        message="dependsOn must have names of earlier replicatedJobs",
    ),
    Rule(
        rule=f"{_JOBS}.all(r, {_COUNT.format('r')} *"
        f" r.template.spec.?parallelism.orValue(1) <= {MAX_PODS})",
        message=f"the product of replicas and parallelism must not exceed {MAX_PODS}",
    ),
)
_POLICY_RULES = (
    _known(
        "successPolicy.targetReplicatedJobs",
        f"self.?successPolicy.targetReplicatedJobs.orValue([]).all(t, t in {_NAMES})",
    ),
    _known(
        "failurePolicy.rules.targetReplicatedJobs",
        f"{_RULES}.all(u, u.?targetReplicatedJobs.orValue([]).all(t, t in {_NAMES}))",
    ),
    Rule(
        rule=f"{_RULES}.all(u, u.?onJobFailureReasons.orValue([]).all(t, t in"
        f" {list(FAILURE_REASONS)}))",
        message=(
            "failurePolicy.rules.onJobFailureReasons: a recognized job failure reason is one of"
            f" {', '.join(FAILURE_REASONS)}"
        ),
    ),
    Rule(
        rule=f"{_POLICY}.restartStrategy.orValue('') != 'InPlaceRestart'",
        message=(
            "InPlaceRestart restart strategy cannot be set when InPlaceRestart feature gate is"
            " disabled, which it is here"
        ),
    ),
    Rule(
        rule=f"!{_RULES}.exists(u, {_ONE}) ||"
        f" {_JOBS}.all(r, {_COUNT.format('r')} <= {MAX_RESTARTED})",
        message=(
            f"failurePolicy.rules with {' or '.join(OF_ONE_JOB)} need replicas of at most"
            f" {MAX_RESTARTED}"
        ),
    ),
)
_COORDINATOR_RULES = (
    Rule(rule=_coordinated("true"), message="coordinator replicatedJob does not exist"),
    Rule(
        rule=_coordinated(f"self.coordinator.?jobIndex.orValue(0) < {_COUNT.format('r')}"),
        message="coordinator job index must be less than the replicas of its replicatedJob",
    ),
    Rule(
        rule=_coordinated(
            "r.template.spec.?completionMode.orValue('Indexed') == 'Indexed' &&"
            " has(r.template.spec.completions)"
        ),
        message=(
            "job for coordinator pod must be indexed completion mode, and completions number must"
            " be set"
        ),
    ),
    Rule(
        rule=_coordinated(
            "self.coordinator.?podIndex.orValue(0) < r.template.spec.?completions.orValue(1)"
        ),
        message="coordinator pod index must be less than completions of its replicatedJob",
    ),
)
_MANAGED = "self.?managedBy.orValue('') == oldSelf.?managedBy.orValue('')"
SPEC_RULES = rules(
    *_START_RULES,
    *_POLICY_RULES,
    *_COORDINATOR_RULES,
    Rule(
        rule=_MANAGED,
        message="managedBy cannot be changed: delete the JobSet and create it again",
    ),
    *update_rules(),
)
"""Rules over ``spec``."""
_OBJECT_JOBS = "self.spec.?replicatedJobs.orValue([])"
_LAST_JOB = f"string({_COUNT.format('r')} - 1)"
_SUBDOMAIN = (
    "(self.spec.?network.subdomain.orValue('') == '' ? self.metadata.name :"
    " self.spec.network.subdomain)"
)
JOB_RULES = rules(
    Rule(
        rule=f"size({_OBJECT_JOBS}) == 0 || self.metadata.name.matches('{LABEL}')",
        message=(
            "metadata.name becomes part of host names: it must begin with a letter and have"
            " only lower case letters, digits and '-'"
        ),
    ),
    Rule(
        rule=f"{_OBJECT_JOBS}.all(r, size(self.metadata.name) + size(r.name) +"
        f" size({_LAST_JOB}) + 2 <= {MAX_LABEL})",
        message=(
            "JobSet name is too long, job names generated for this JobSet will exceed"
            f" {MAX_LABEL} characters"
        ),
    ),
    Rule(
        rule=f"{_OBJECT_JOBS}.all(r, r.template.spec.?completionMode.orValue('Indexed') !="
        " 'Indexed' || !has(r.template.spec.completions) ||"
        f" size(self.metadata.name) + size(r.name) + size({_LAST_JOB}) +"
        f" size(string(r.template.spec.completions - 1)) + 9 <= {MAX_LABEL})",
        message=(
            "JobSet name is too long, pod names generated for this JobSet will exceed"
            f" {MAX_LABEL} characters"
        ),
    ),
    Rule(
        rule="self.spec.?volumeClaimPolicies.orValue([]).all(p, p.?templates.orValue([]).all(t,"
        f" size(t.metadata.name) + size(self.metadata.name) < {MAX_LABEL}))",
        message=(
            "VolumeClaimPolicies template name is too long: claims are named <template>-<jobset>,"
            f" with at most {MAX_LABEL} characters"
        ),
    ),
    Rule(
        rule="!has(self.spec.coordinator) || size(self.metadata.name) +"
        " size(self.spec.coordinator.replicatedJob) +"
        " size(string(self.spec.coordinator.?jobIndex.orValue(0))) +"
        " size(string(self.spec.coordinator.?podIndex.orValue(0))) +"
        f" size({_SUBDOMAIN}) + 4 <= {MAX_LABEL}",
        message=(
            "spec will lead to invalid label value for coordinator label: shorten the names of the"
            " JobSet, its coordinator.replicatedJob or its network.subdomain"
        ),
    ),
)
"""Rules over the whole object."""


def _replicated_status() -> dict[str, Any]:
    """Return the schema of ``status.replicatedJobsStatus``."""
    restarts = {"type": "array", "items": COUNT, "x-kubernetes-list-type": "atomic"}
    counts = {
        "ready": "Number of Jobs whose pods are all ready, or have succeeded.",
        "succeeded": "Number of Jobs that have succeeded.",
        "failed": "Number of Jobs that have failed.",
        "active": "Number of Jobs with pods that run or wait.",
        "suspended": "Number of suspended Jobs.",
    }
    return {
        "description": "The Jobs of each replicated job, by state.",
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {"type": "string", "description": "Name of the replicated job."},
                **{name: {**COUNT, "description": text} for name, text in counts.items()},
                "jobRestarts": restarts
                | {"description": "How often each Job was restarted by itself."},
                "jobRestartsCountTowardsMax": restarts
                | {"description": "How many of these restarts count against maxRestarts."},
            },
        },
    }


DEFINITION = Kind(
    group=GROUP,
    version=VERSION,
    kind=KIND,
    plural=PLURAL,
    description="A number of Jobs that start, fail and restart as one.",
    spec=JobSetSpec,
    reasons=REASONS,
    spec_rules=SPEC_RULES,
    rules=JOB_RULES,
    columns=(
        Column(
            name="TerminalState",
            type="string",
            json_path=".status.terminalState",
            description="Final state of JobSet",
        ),
        Column(
            name="Restarts",
            type="string",
            json_path=".status.restarts",
            description="Number of restarts",
        ),
        Column(
            name="Completed",
            type="string",
            json_path='.status.conditions[?(@.type=="Completed")].status',
        ),
        Column(
            name="Suspended",
            type="string",
            json_path=".spec.suspend",
            description="JobSet suspended",
        ),
        AGE,
        PROGRESS,
        REASON,
        MESSAGE,
    ),
    status=StatusWords(
        start_time="Time at which the job was accepted, or resumed.",
        replicas="Numbers of pods, by replicated job.",
        numbers={
            "active": "Number of pods that hold resources, terminating ones included.",
            "ready": "Number of pods that are ready.",
        },
        fields={
            "restarts": {
                **COUNT,
                "description": "How often all Jobs were created again. It never decreases.",
            },
            "restartsCountTowardsMax": {
                **COUNT,
                "description": "How many of these restarts count against maxRestarts.",
            },
            "terminalState": {
                "type": "string",
                "description": "Completed or Failed, when the JobSet has finished.",
            },
            "replicatedJobsStatus": _replicated_status(),
        },
    ),
    project=PROJECT,
    manager=Manager(here=MANAGER),
)
"""The definition that the embedded cluster has; other clusters have that of JobSet."""
