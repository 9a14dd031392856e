"""What keeps a JobSet from running: each problem names the field and the fix."""

from __future__ import annotations

import pytest

from api.broken import Broken
from plan.jobset.world import example, pair
from traincrew.api.kinds.jobset import patterns
from traincrew.api.kinds.jobset import types as api
from traincrew.api.kinds.jobset.rules import problems
from traincrew.api.meta import ObjectMeta

PAIR, EVERYTHING, CLAIMS = pair(), example("everything"), example("claims")
_TEMPLATE = "spec/volumeClaimPolicies/0/templates/0/metadata"
_JOBS = "spec/replicatedJobs"
_AFTER = [{"name": "driver", "status": "Ready"}]
_RULE = {"action": "FailJobSet"}
RESTARTED = pair(failurePolicy={"rules": [{"action": "RestartJob"}]})
WRONG = [
    Broken(PAIR, "metadata/name", "1digits", ("metadata.name", "begin with a letter")),
    Broken(PAIR, "metadata/name", "d" * 55, ("metadata.name", "shorten")),
    Broken(PAIR, f"{_JOBS}/1/name", "driver", ("spec.replicatedJobs", "rename")),
    Broken(PAIR, f"{_JOBS}/0/dependsOn", _AFTER, ("[0].dependsOn", "first one", "remove")),
    Broken(
        PAIR,
        f"{_JOBS}/1/dependsOn",
        [{"name": "workers", "status": "Ready"}],
        ("[1].dependsOn", "no earlier replicated job"),
    ),
    Broken(
        PAIR,
        "spec/successPolicy",
        {"operator": "All", "targetReplicatedJobs": ["no"]},
        ("successPolicy.targetReplicatedJobs", "no replicated job no"),
    ),
    Broken(
        PAIR,
        "spec/failurePolicy",
        {"rules": [{**_RULE, "targetReplicatedJobs": ["no"]}]},
        ("failurePolicy.rules[0].targetReplicatedJobs",),
    ),
    Broken(
        PAIR,
        "spec/failurePolicy",
        {"rules": [{**_RULE, "onJobFailureMessagePatterns": ["(a+)+$"]}]},
        ("rules[0].onJobFailureMessagePatterns", "a repetition in a repetition"),
    ),
    Broken(
        PAIR,
        "spec/failurePolicy",
        {"restartStrategy": "InPlaceRestart"},
        ("failurePolicy.restartStrategy", "write Recreate"),
    ),
    Broken(
        PAIR,
        "spec/failurePolicy",
        {"rules": [{**_RULE, "onJobFailureReasons": ["No"]}]},
        ("rules[0].onJobFailureReasons", "do not fail with No", "use BackoffLimitExceeded"),
    ),
    Broken(
        PAIR,
        "spec/failurePolicy",
        {"rules": [{**_RULE, "name": "same"}, {**_RULE, "name": "same"}]},
        ("failurePolicy.rules: 2 are named same", "rename"),
    ),
    Broken(
        PAIR,
        _JOBS,
        [
            {
                **PAIR["spec"]["replicatedJobs"][0],
                "replicas": 5000,
                "template": {
                    "spec": {
                        **PAIR["spec"]["replicatedJobs"][0]["template"]["spec"],
                        "parallelism": 2**20,
                    }
                },
            }
        ],
        ("replicatedJobs[0].replicas", "more than 2147483647"),
    ),
    Broken(
        RESTARTED,
        f"{_JOBS}/1/replicas",
        1025,
        ("replicatedJobs[1].replicas", "at most 1024 Jobs are restarted one by one"),
    ),
    Broken(EVERYTHING, "spec/coordinator/replicatedJob", "no", ("coordinator.replicatedJob",)),
    Broken(EVERYTHING, "spec/coordinator/jobIndex", 2, ("coordinator.jobIndex", "lower")),
    Broken(EVERYTHING, "spec/coordinator/podIndex", 4, ("coordinator.podIndex", "lower")),
    Broken(EVERYTHING, "spec/coordinator/replicatedJob", "driver", ("spec.coordinator", "Indexed")),
    Broken(CLAIMS, f"{_TEMPLATE}/name", "model", ("volumeClaimPolicies", "rename")),
    Broken(CLAIMS, f"{_TEMPLATE}/name", "Scratch", ("no possible name of a claim",)),
    Broken(CLAIMS, f"{_TEMPLATE}/name", "s" * 57, ("at most 63 lower case letters",)),
    Broken(CLAIMS, f"{_TEMPLATE}/name", "other", ("no container has a volumeMount named other",)),
    Broken(
        CLAIMS,
        f"{_JOBS}/0/template/spec/template/spec/volumes",
        [{"name": "scratch", "emptyDir": {}}],
        ("replicatedJobs[0].template.spec.template.spec.volumes", "rename one of the two"),
    ),
]


@pytest.mark.parametrize("broken", WRONG, ids=lambda broken: broken.title)
def test_problems(broken: Broken) -> None:
    job = broken.manifest()
    metadata = ObjectMeta(name=job["metadata"]["name"])
    found = "; ".join(map(str, problems(metadata, api.decode(job["spec"]))))

    for text in broken.says:
        assert text in found


@pytest.mark.parametrize("job", [PAIR, EVERYTHING, CLAIMS], ids=["pair", "everything", "claims"])
def test_no_problems(job: dict[str, dict[str, object]]) -> None:
    assert problems(ObjectMeta(name="digits"), api.decode(job["spec"])) == []


@pytest.mark.parametrize(
    "good", ["", "^Job .* limit$", "(failed|lost) .*", r"code \d{1,3}\b", "a|b"]
)
def test_patterns_that_are_safe(good: str) -> None:
    assert patterns.problem(good) == ""


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("(", "not a regular expression"),
        ("(a*)*", "repetition in a repetition"),
        ("(a|aa)+", "repeats alternatives"),
        (".*a.*b.*c.*", "at most 3"),
        (r"(a)\1", "RE2"),
        ("(?=a)", "RE2"),
    ],
)
def test_patterns_that_are_refused(bad: str, said: str) -> None:
    assert said in patterns.problem(bad)
