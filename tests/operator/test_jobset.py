"""JobSets with the operator and the embedded API server; tests set the state of Jobs."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from api.broken import ABSENT, Broken
from plan.elasticjob.world import elastic
from plan.jobset.world import example, pair
from traincrew.engine.errors import ApiError
from traincrew.engine.resources import DEPLOYMENTS, JOBS, PODS, SERVICES, Resource

if TYPE_CHECKING:
    from harness import Cluster

JOB_SETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
SELECTOR = "jobset.sigs.k8s.io/jobset-name=digits"
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
PAIR, EVERYTHING, CLAIMING = pair(), example("everything"), example("claims")
_TEMPLATES = "spec/volumeClaimPolicies/0/templates"
_JOBS = "spec/replicatedJobs"
_AFTER = [{"name": "driver", "status": "Ready"}]
_RULE: dict[str, Any] = {"action": "FailJobSet", "name": "same"}
_POD = f"{_JOBS}/0/template/spec/template/spec"
REFUSED = [
    Broken(PAIR, "metadata/name", "1digits", ("begin with a letter",)),
    Broken(PAIR, "metadata/name", "d" * 55, ("JobSet name is too long",)),
    Broken(PAIR, f"{_JOBS}/0/name", "Driver", ("replicatedJobs[0].name",)),
    Broken(PAIR, f"{_JOBS}/1/name", "driver", ("Duplicate value",)),
    Broken(PAIR, f"{_JOBS}/0/template/spec/complitions", 2, ("complitions",)),
    Broken(PAIR, f"{_JOBS}/0/template/spec", ABSENT, ("replicatedJobs[0].template.spec",)),
    Broken(PAIR, f"{_JOBS}/0/dependsOn", _AFTER, ("can't be set for the first ReplicatedJob",)),
    Broken(
        PAIR,
        f"{_JOBS}/1/dependsOn",
        [{"name": "workers", "status": "Ready"}],
        ("names of earlier replicatedJobs",),
    ),
    Broken(
        PAIR, f"{_JOBS}/1/template/spec/parallelism", 2**31 - 1, ("must not exceed 2147483647",)
    ),
    Broken(PAIR, "spec/failurePolicy", {"rules": [_RULE, _RULE]}, ("names are not unique",)),
    Broken(
        PAIR,
        "spec/failurePolicy",
        {"rules": [{**_RULE, "onJobFailureReasons": ["No"]}]},
        ("recognized job failure reason",),
    ),
    Broken(
        PAIR,
        "spec/successPolicy",
        {"operator": "Any", "targetReplicatedJobs": ["no"]},
        ("successPolicy.targetReplicatedJobs",),
    ),
    Broken(EVERYTHING, "spec/coordinator/replicatedJob", "no", ("replicatedJob does not exist",)),
    Broken(EVERYTHING, "spec/coordinator/jobIndex", 2, ("coordinator job index",)),
    Broken(EVERYTHING, "spec/coordinator/podIndex", 4, ("coordinator pod index",)),
    Broken(EVERYTHING, "spec/network/subdomain", "s" * 50, ("coordinator label",)),
    Broken(PAIR, "spec/managedBy", "me", ("spec.managedBy",)),
    Broken(CLAIMING, f"{_TEMPLATES}/0/metadata/name", "model", ("names must be unique",)),
    Broken(CLAIMING, f"{_TEMPLATES}/0/metadata/name", "Model", ("metadata.name",)),
    Broken(CLAIMING, f"{_TEMPLATES}/0/metadata/name", "m" * 57, ("name is too long",)),
    Broken(CLAIMING, f"{_TEMPLATES}/0/metadata/namespace", "one", ("namespace cannot be set",)),
    Broken(CLAIMING, f"{_TEMPLATES}/0/spec", ABSENT, ("templates[0].spec",)),
    Broken(CLAIMING, f"{_TEMPLATES}/0/spec/accessMode", "x", ("accessMode",)),
]

pytestmark = pytest.mark.asyncio(loop_scope="module")
OPERATOR_KINDS = ("JobSet",)


async def jobs(cluster: Cluster, *, suspended: bool = False) -> list[dict[str, Any]]:
    """The Jobs of the JobSet, when all of them are there, by name."""

    async def there() -> Any:
        items = (await cluster.client.list(JOBS, "default", label_selector=SELECTOR))["items"]
        found = [each for each in items if bool(each["spec"].get("suspend")) == suspended]
        return found if len(found) == 3 else None

    found: list[dict[str, Any]] = await cluster.until(there)
    return sorted(found, key=lambda job: str(job["metadata"]["name"]))


async def finish(cluster: Cluster, job: dict[str, Any], word: str, reason: str) -> None:
    """A Job has ended."""
    stamp = "2026-01-01T00:00:00Z"
    before = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[word]
    ended = {
        "startTime": stamp,
        **({"completionTime": stamp, "succeeded": 1} if word == "Complete" else {"failed": 1}),
        "conditions": [
            {"type": kind, "status": "True", "reason": reason, "lastTransitionTime": stamp}
            for kind in (before, word)
        ],
    }
    await cluster.client.patch(
        JOBS, job["metadata"]["name"], "default", patch={"status": ended}, subresource="status"
    )


async def remove_claim(served: Cluster, name: str) -> None:
    """Delete a claim, and wait until it is gone: it is protected."""
    await served.client.delete(CLAIMS, name, "default")

    async def gone() -> bool:
        return await served.find(CLAIMS, name) is None

    await served.until(gone)


async def remove(cluster: Cluster) -> None:
    """Delete the JobSet, and wait until nothing is left of it."""
    await cluster.client.delete(JOB_SETS, "digits", "default")

    async def gone() -> bool:
        for resource in (JOBS, PODS, SERVICES):
            if (await cluster.client.list(resource, "default", label_selector=SELECTOR))["items"]:
                return False
        return True

    await cluster.until(gone)


async def uids(cluster: Cluster) -> dict[str, str]:
    """The UIDs of the claims, by name."""
    found = await cluster.client.list(CLAIMS, "default", label_selector=SELECTOR)
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in found["items"]}


async def test_a_claim_outlives_its_jobset_and_the_next_one_uses_it(served: Cluster) -> None:
    await served.create(CLAIMING)
    await jobs(served)
    before = await uids(served)
    assert before.keys() == {"scratch-digits", "model-digits"}
    await remove(served)

    async def gone() -> bool:
        return (await uids(served)).keys() == {"model-digits"}

    await served.until(gone)
    await served.create(CLAIMING)
    driver, *_ = await jobs(served)

    after = await uids(served)
    assert after["model-digits"] == before["model-digits"]
    assert after["scratch-digits"] != before["scratch-digits"]
    volumes = driver["spec"]["template"]["spec"]["volumes"]
    assert {"name": "model", "persistentVolumeClaim": {"claimName": "model-digits"}} in volumes
    await remove(served)
    await served.until(gone)
    await remove_claim(served, "model-digits")


async def test_a_claim_that_the_api_refuses_fails_the_jobset(served: Cluster) -> None:
    job = copy.deepcopy(CLAIMING)
    job["spec"]["volumeClaimPolicies"][0]["templates"][0]["spec"]["accessModes"] = []
    await served.create(job)

    failed = await served.until_phase("digits", "Failed")

    assert failed["status"]["reason"] == "PersistentVolumeClaimCreationFailed"
    assert "spec.accessModes: Required value" in failed["status"]["message"]
    await remove(served)
    await remove_claim(served, "model-digits")


async def test_it_waits_for_a_kept_claim_that_is_being_deleted(served: Cluster) -> None:
    spec = CLAIMING["spec"]["volumeClaimPolicies"][1]["templates"][0]["spec"]
    metadata = {"name": "model-digits", "finalizers": ["example.com/hold"]}
    kept = {"apiVersion": "v1", "kind": CLAIMS.kind, "metadata": metadata, "spec": spec}
    before = await served.client.create(CLAIMS, kept, "default")
    await served.client.delete(CLAIMS, "model-digits", "default")
    await served.create(CLAIMING)

    async def told() -> bool:
        found = await served.client.get(JOB_SETS, "digits", "default")
        said = found.get("status", {}).get("message", "")
        return "model-digits of an earlier JobSet of this name is still being deleted" in said

    await served.until(told)
    released = {"metadata": {"finalizers": None}}
    await served.client.patch(CLAIMS, "model-digits", "default", patch=released)
    await jobs(served)
    assert (await uids(served))["model-digits"] != before["metadata"]["uid"]
    await remove(served)
    await remove_claim(served, "model-digits")


async def test_a_claim_of_somebody_else_is_not_deleted_with_the_jobset(served: Cluster) -> None:
    spec = CLAIMING["spec"]["volumeClaimPolicies"][0]["templates"][0]["spec"]
    theirs = {"apiVersion": "v1", "kind": CLAIMS.kind, "metadata": {"name": "scratch-digits"}}
    await served.client.create(CLAIMS, {**theirs, "spec": spec}, "default")
    await served.create(CLAIMING)

    async def told() -> bool:
        found = await served.client.get(JOB_SETS, "digits", "default")
        said = found.get("status", {}).get("message", "")
        return '"scratch-digits" already exists and is not managed by JobSet' in said

    await served.until(told)
    await remove(served)
    for name in ("scratch-digits", "model-digits"):
        await remove_claim(served, name)


async def test_a_jobset_fails_once_and_succeeds(served: Cluster) -> None:
    job = pair(failurePolicy={"maxRestarts": 1}, suspend=True)
    await served.create(job)
    await jobs(served, suspended=True)
    template = {"nodeSelector": {"kubernetes.io/os": "linux"}}
    changed = copy.deepcopy(job["spec"]["replicatedJobs"])
    changed[0]["template"]["spec"]["template"]["spec"] |= template
    await served.client.patch(
        JOB_SETS, "digits", "default", patch={"spec": {"suspend": False, "replicatedJobs": changed}}
    )
    driver, *_ = await jobs(served)
    assert driver["spec"]["template"]["spec"]["nodeSelector"] == template["nodeSelector"]
    assert (await served.client.get(SERVICES, "digits", "default"))["spec"]["clusterIP"] == "None"
    await finish(served, driver, "Failed", "BackoffLimitExceeded")

    async def again() -> Any:
        found = await jobs(served)
        return found if found[0]["metadata"]["uid"] != driver["metadata"]["uid"] else None

    for each in await served.until(again):
        assert each["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"] == "1"
        await finish(served, each, "Complete", "CompletionsReached")
    found = await served.until_phase("digits", "Succeeded")
    assert found["status"]["terminalState"] == "Completed"
    assert found["status"]["restarts"] == 1
    assert found["spec"] == job["spec"] | {"suspend": False, "replicatedJobs": changed}

    await remove(served)


@pytest.mark.parametrize("broken", REFUSED, ids=lambda broken: broken.title)
async def test_refused_at_create(served: Cluster, broken: Broken) -> None:
    with pytest.raises(ApiError) as refused:
        await served.create_strictly(broken.manifest())

    broken.check_refusal(refused.value)


CHANGES: list[tuple[bool, str, Any, str]] = [
    (False, f"{_POD}/nodeSelector", {"a": "b"}, "while the JobSet is not suspended"),
    (True, f"{_POD}/nodeSelector", {"a": "b"}, ""),
    (True, f"{_JOBS}/0/template/spec/template/metadata", {"labels": {"a": "b"}}, ""),
    (True, f"{_POD}/tolerations", [{"key": "a"}], ""),
    (True, f"{_POD}/containers/0/image", "busybox:2", "template.spec.template.spec cannot"),
    (True, f"{_JOBS}/0/template/spec/backoffLimit", 3, "replicatedJobs.template.spec cannot"),
    (True, f"{_JOBS}/0/replicas", 3, "replicatedJobs cannot be changed"),
    (True, f"{_JOBS}/0/replicas", 1, ""),
    (True, f"{_JOBS}/0/template/metadata", {"labels": {"a": "b"}}, "replicatedJobs.template can"),
    (True, "spec/managedBy", "example.com/me", "managedBy cannot be changed"),
    (True, "spec/successPolicy", {"operator": "Any"}, ""),
]


@pytest.mark.parametrize(("suspended", "path", "value", "said"), CHANGES)
async def test_changes(served: Cluster, suspended: bool, path: str, value: Any, said: str) -> None:
    job = pair(managedBy="example.com/nobody", suspend=suspended)
    await served.create(job)
    changed = Broken(job, path, value, (said,))
    patch = {"spec": changed.manifest()["spec"]}
    try:
        await served.client.patch(JOB_SETS, "digits", "default", patch=patch)
    except ApiError as refused:
        assert said
        changed.check_refusal(refused)
    else:
        assert not said
    await remove(served)


async def test_jobsets_are_left_to_their_own_controller_while_it_runs(served: Cluster) -> None:
    labels = {"app.kubernetes.io/name": "jobset", "app.kubernetes.io/instance": "jobset"}
    pod = {"containers": [{"name": "manager", "image": "jobset"}]}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "jobset", "namespace": "default", "labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    await served.client.create(DEPLOYMENTS, deployment)
    await seen(served, "before")
    await served.create(pair())
    await seen(served, "after")
    job = await served.client.get(JOB_SETS, "digits", "default")
    assert job.get("status") is None
    await served.client.delete(DEPLOYMENTS, "jobset", "default")
    await jobs(served)
    await remove(served)


async def seen(cluster: Cluster, name: str) -> None:
    """Create a job of another kind, which the operator serves, and wait until it has seen it."""
    job = elastic(1)
    job["metadata"]["name"] = name
    await cluster.create(job)
    await cluster.until_phase(name, "Created")
    found = Resource("elastic.pytorch.org", "v1alpha1", "elasticjobs", "ElasticJob")
    await cluster.client.delete(found, name, "default")
