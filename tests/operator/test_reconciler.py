"""Execution of plans: writes that fail or are refused, existing objects, changes by others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness import CHAINER_JOBS, JOBS, OPERATOR_AGENT, STATEFUL_SETS
from plan.chainerjob.world import distributed, plain
from traincrew.engine.resources import CONFIG_MAPS, ROLES
from traincrew.local.apiserver.http.faults import Fault, refuse

if TYPE_CHECKING:
    from harness import Cluster

pytestmark = pytest.mark.usefixtures("impatient")
NAME = "digits-mn"


# -- writes that go wrong -----------------------------------------------------------------------


class Once:
    """A fault for the first write whose path has a word in it."""

    def __init__(self, method: str, word: str, fault: Fault) -> None:
        self.method, self.word, self.fault = method, word, fault
        self.happened = 0

    def __call__(self, method: str, path: str, agent: str) -> Fault | None:
        """The hook of the API server."""
        if self.happened or not agent.startswith(OPERATOR_AGENT):
            return None
        if method != self.method or self.word not in path:
            return None
        self.happened += 1
        return self.fault


@pytest.mark.parametrize(
    "fault",
    [
        Fault(cut="before"),
        Fault(cut="after"),
        refuse(404),
        refuse(409),
        refuse(429, retry_after=1),
        refuse(500),
        refuse(503),
    ],
    ids=["lost", "answer lost", "not served", "conflict", "too many", "internal", "unavailable"],
)
@pytest.mark.parametrize(
    ("method", "word"),
    [("POST", "/configmaps"), ("POST", "/statefulsets"), ("PATCH", "/status")],
    ids=["first stage", "second stage", "status"],
)
async def test_a_write_that_fails_once_is_retried(
    cluster: Cluster, method: str, word: str, fault: Fault
) -> None:
    once = Once(method, word, fault)
    cluster.server.faults = once
    await cluster.start_operator()
    await cluster.create(distributed())
    await cluster.until_phase(NAME, "Created", message="0/2 workers ready")

    assert once.happened
    assert len(await cluster.all(STATEFUL_SETS)) == 1
    assert (await cluster.find(CONFIG_MAPS, f"{NAME}-assets")) is not None
    assert [reason for _, reason, _ in await cluster.events_of(NAME) if reason != "Synced"] == []


async def test_a_forbidden_write_is_reported_and_retried(cluster: Cluster) -> None:
    text = 'roles.rbac.authorization.k8s.io is forbidden: exceeded quota: "gold"'
    allowed = False

    def forbid(method: str, path: str, agent: str) -> Fault | None:
        mine = agent.startswith(OPERATOR_AGENT) and method == "POST"
        return refuse(403, text) if mine and "/roles" in path and not allowed else None

    cluster.server.faults = forbid
    await cluster.start_operator()
    await cluster.create(distributed())
    await cluster.until_phase(NAME, "Created", reason="FailedSynced", message=text)
    assert await cluster.all(STATEFUL_SETS) == []

    allowed = True
    await cluster.until_phase(NAME, "Created", reason="WaitingForWorkers")


async def test_the_first_job_after_an_installation_does_not_wait(cluster: Cluster) -> None:
    """An API server's admission needs up to 30 s until it knows the kind of the owner."""
    text = (
        "is forbidden: cannot set blockOwnerDeletion in this case because cannot find RESTMapping"
        " for APIVersion kubeflow.org/v1alpha1 Kind ChainerJob"
    )
    refused: set[str] = set()

    def not_known_yet(method: str, path: str, agent: str) -> Fault | None:
        mine = agent.startswith(OPERATOR_AGENT) and method == "POST" and "/events" not in path
        if not mine or path in refused:
            return None
        refused.add(path)
        return refuse(403, text)

    cluster.server.faults = not_known_yet
    await cluster.start_operator()
    await cluster.create(distributed())
    await cluster.until_phase(NAME, "Created", reason="WaitingForWorkers")

    workers = await cluster.find(STATEFUL_SETS, f"{NAME}-workerset-ws0")
    assert workers is not None
    (owner,) = workers["metadata"]["ownerReferences"]
    assert owner["controller"] is True
    assert "blockOwnerDeletion" not in owner

    async def told() -> list[str]:
        return [reason for _, reason, _ in await cluster.events_of(NAME)]

    # Events are written by a task of their own, after the status.
    assert await cluster.until(told) == ["Synced"]


# -- what others do -----------------------------------------------------------------------------


async def test_changes_of_others_to_children_are_reverted(cluster: Cluster) -> None:
    await cluster.start_operator()
    await cluster.create(distributed())
    await cluster.until_phase(NAME, "Created", message="0/2 workers ready")
    name = f"{NAME}-workerset-ws0"
    image = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "x"}]
    await cluster.client.patch(STATEFUL_SETS, name, "default", patch=image, kind="json")
    await cluster.client.patch(ROLES, f"{NAME}-launcher-role", "default", patch={"rules": []})
    await cluster.client.patch(
        CONFIG_MAPS, f"{NAME}-assets", "default", patch={"data": {"kubexeb.sh": "#!/bin/sh"}}
    )

    async def right() -> bool:
        workers = await cluster.client.get(STATEFUL_SETS, name, "default")
        role = await cluster.client.get(ROLES, f"{NAME}-launcher-role", "default")
        assets = await cluster.client.get(CONFIG_MAPS, f"{NAME}-assets", "default")
        return bool(
            workers["spec"]["template"]["spec"]["containers"][0]["image"].startswith("everpeace")
            and len(role["rules"] or ()) == 3
            and "kubectl" in assets["data"]["kubexeb.sh"]
        )

    await cluster.until(right)


async def test_what_others_add_to_children_is_kept(cluster: Cluster) -> None:
    await cluster.start_operator()
    await cluster.create(distributed())
    await cluster.until_phase(NAME, "Created", message="0/2 workers ready")
    name = f"{NAME}-workerset-ws0"
    note = {"metadata": {"annotations": {"mine": "yes"}, "labels": {"also": "mine"}}}
    await cluster.client.patch(STATEFUL_SETS, name, "default", patch=note)
    await cluster.edit(NAME, {"workerSets": {"ws0": {"replicas": 3}}})

    async def scaled() -> Any:
        workers = await cluster.client.get(STATEFUL_SETS, name, "default")
        return workers if workers["spec"]["replicas"] == 3 else None

    workers = await cluster.until(scaled)
    assert workers["metadata"]["annotations"]["mine"] == "yes"
    assert workers["metadata"]["labels"]["also"] == "mine"


async def test_a_recreated_job_of_the_same_name_starts_again(cluster: Cluster) -> None:
    await cluster.start_operator()
    await cluster.create(distributed())
    await cluster.run_workers(2)
    await cluster.end_pod(await cluster.run_master(), 0)
    first = await cluster.until_phase(NAME, "Succeeded", workersReady="0/0")

    async def no_workers() -> bool:
        return not await cluster.pods("workerset")

    # Those of the new job have the same names.
    await cluster.until(no_workers)
    await cluster.client.delete(CHAINER_JOBS, NAME, "default")

    async def created() -> bool:
        found = await cluster.find(CHAINER_JOBS, NAME)
        if found is None:
            await cluster.create(distributed())
            return True
        return False

    await cluster.until(created)
    await cluster.run_workers(2)
    await cluster.run_master()
    second = await cluster.until_phase(NAME, "Running", workersReady="2/2")

    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    for resource in (STATEFUL_SETS, JOBS, CONFIG_MAPS):
        for child in await cluster.all(resource):
            if NAME in child["metadata"]["name"]:
                (owner,) = child["metadata"]["ownerReferences"]
                assert owner["uid"] == second["metadata"]["uid"]


async def test_deleting_a_job_leaves_nothing(cluster: Cluster) -> None:
    await cluster.start_operator()
    await cluster.create(distributed())
    await cluster.run_workers(2)
    await cluster.run_master()
    await cluster.until_phase(NAME, "Running")
    await cluster.client.delete(CHAINER_JOBS, NAME, "default", propagation="Foreground")

    async def gone() -> bool:
        return not [
            child["metadata"]["name"]
            for resource in (CHAINER_JOBS, STATEFUL_SETS, JOBS, CONFIG_MAPS, ROLES)
            for child in await cluster.all(resource)
            if NAME in child["metadata"]["name"]
        ]

    await cluster.until(gone)
    assert await cluster.pods("workerset") == []


async def test_children_deleted_with_their_job_are_not_recreated(cluster: Cluster) -> None:
    """The operator observes the deletion of the children before that of the job."""
    deaf = False
    refused, asked, made = [], [], []

    def lag(method: str, path: str, agent: str) -> Fault | None:
        if not agent.startswith(OPERATOR_AGENT):
            return None
        if "/chainerjobs?" in path and "watch=" in path:
            if not deaf:
                return Fault(cut_after_bytes=100_000)
            refused.append(path)
            return refuse(503)
        if deaf and "fieldSelector=" in path:
            asked.append(path)
        # After two seconds of waiting it asks whether the master would be refused: a dry run.
        if deaf and method == "POST" and "/events" not in path and "dryRun=" not in path:
            made.append(path)
        return None

    cluster.server.faults = lag
    await cluster.start_operator()
    await cluster.create(distributed())
    await cluster.until_phase(NAME, "Created", message="0/2 workers ready")
    deaf = True
    pad = {"metadata": {"annotations": {"pad": "x" * 150_000}}}
    await cluster.client.patch(CHAINER_JOBS, NAME, "default", patch=pad)

    async def heard_no_more() -> bool:
        return bool(refused)

    await cluster.until(heard_no_more)
    await cluster.client.delete(CHAINER_JOBS, NAME, "default")

    async def gone() -> bool:
        return bool(asked) and not [
            child["metadata"]["name"]
            for resource in (STATEFUL_SETS, CONFIG_MAPS, ROLES)
            for child in await cluster.all(resource)
            if NAME in child["metadata"]["name"]
        ]

    await cluster.until(gone)
    assert made == []


async def test_a_deleted_child_is_recreated(cluster: Cluster) -> None:
    await cluster.start_operator()
    await cluster.create(distributed())
    await cluster.until_phase(NAME, "Created", message="0/2 workers ready")
    role = await cluster.client.get(ROLES, f"{NAME}-launcher-role", "default")
    await cluster.client.delete(ROLES, f"{NAME}-launcher-role", "default")

    async def back() -> bool:
        found = await cluster.find(ROLES, f"{NAME}-launcher-role")
        return found is not None and found["metadata"]["uid"] != role["metadata"]["uid"]

    await cluster.until(back)


async def test_suspend_and_resume(cluster: Cluster) -> None:
    await cluster.start_operator()
    await cluster.create(distributed())
    await cluster.run_workers(2)
    await cluster.run_master()
    await cluster.until_phase(NAME, "Running", workersReady="2/2")
    await cluster.edit(NAME, {"runPolicy": {"suspend": True}})
    await cluster.until_phase(NAME, "Suspended", reason="ChainerJobSuspended")
    assert await cluster.pods("workerset") == []
    assert await cluster.pods("master") == []

    await cluster.edit(NAME, {"runPolicy": {"suspend": False}})
    await cluster.until_phase(NAME, "Created", reason="WaitingForWorkers")
    await cluster.run_workers(2)
    master = await cluster.run_master()
    job = await cluster.until_phase(NAME, "Running", workersReady="2/2")
    assert job["status"]["restarts"] == 0
    await cluster.end_pod(master, 0)
    await cluster.until_phase(NAME, "Succeeded")


async def test_a_finished_job_is_not_modified(cluster: Cluster) -> None:
    await cluster.start_operator()
    await cluster.create(plain())
    await cluster.end_pod(await cluster.run_master(), 0)
    before = await cluster.until_phase("digits", "Succeeded")
    await cluster.client.delete(JOBS, "digits-master", "default")
    await cluster.kill_operator()
    await cluster.start_operator()
    await cluster.edit("digits", {"master": {"backoffLimit": 9}})
    other = distributed()
    await cluster.create(other)
    await cluster.until_phase(NAME, "Created", message="0/2 workers ready")

    async def reported() -> bool:
        events = await cluster.events_of("digits")
        return any(reason == "JobFinished" for _, reason, _ in events)

    await cluster.until(reported)
    after = await cluster.job("digits")
    (late,) = [item for item in after["status"]["conditions"] if item["type"] == "Synced"]
    assert "will not run" in late["message"]
    after["status"]["conditions"].remove(late)
    assert after["status"] == before["status"]
    assert await cluster.find(JOBS, "digits-master") is None


async def test_a_removed_worker_set_is_deleted_with_its_pods(cluster: Cluster) -> None:
    await cluster.start_operator()
    await cluster.create(distributed())
    await cluster.run_workers(2)
    await cluster.run_master()
    await cluster.until_phase(NAME, "Running")
    workers = distributed()["spec"]["workerSets"]["ws0"]
    await cluster.edit(NAME, {"workerSets": {"ws0": None, "other": {**workers, "replicas": 1}}})

    async def replaced() -> bool:
        sets = [child["metadata"]["name"] for child in await cluster.all(STATEFUL_SETS)]
        pods = [pod["metadata"]["name"] for pod in await cluster.pods("workerset")]
        return sets == [f"{NAME}-workerset-other"] and pods == [f"{NAME}-workerset-other-0"]

    await cluster.until(replaced)


@pytest.mark.parametrize(("policy", "left"), [("All", 0), ("Running", 1), ("None", 3)])
async def test_clean_pod_policy(cluster: Cluster, policy: str, left: int) -> None:
    await cluster.start_operator()
    await cluster.create(distributed(runPolicy={"cleanPodPolicy": policy}))
    await cluster.run_workers(2)
    await cluster.end_pod(await cluster.run_master(), 0)
    await cluster.until_phase(NAME, "Succeeded")

    async def cleaned() -> bool:
        return len(await cluster.pods("workerset")) + len(await cluster.pods("master")) == left

    await cluster.until(cleaned)


async def test_a_finished_job_is_deleted_after_its_time_to_live(cluster: Cluster) -> None:
    await cluster.start_operator()
    await cluster.create(plain())
    await cluster.end_pod(await cluster.run_master(), 0)
    await cluster.until_phase("digits", "Succeeded")
    await cluster.edit("digits", {"runPolicy": {"ttlSecondsAfterFinished": 1}})

    async def gone() -> bool:
        return await cluster.find(CHAINER_JOBS, "digits") is None

    await cluster.until(gone)


@pytest.mark.parametrize("code", [403, 422])
async def test_a_change_the_api_refuses_does_not_stop_a_running_job(
    cluster: Cluster, code: int
) -> None:
    refused = True

    def refuse_scaling(method: str, path: str, agent: str) -> Fault | None:
        mine = agent.startswith(OPERATOR_AGENT) and method == "PATCH"
        return (
            refuse(code, "not like this") if mine and "/statefulsets" in path and refused else None
        )

    await cluster.start_operator()
    await cluster.create(distributed())
    await cluster.run_workers(2)
    await cluster.run_master()
    await cluster.until_phase(NAME, "Running", workersReady="2/2")
    cluster.server.faults = refuse_scaling
    await cluster.edit(NAME, {"workerSets": {"ws0": {"replicas": 3}}})

    async def said() -> bool:
        job = await cluster.job(NAME)
        return any(
            item["type"] == "Synced" and "not like this" in item["message"]
            for item in job["status"]["conditions"]
        )

    await cluster.until(said)
    assert (await cluster.job(NAME))["status"]["phase"] == "Running"
    refused = False
    await cluster.run_workers(3)
    job = await cluster.until_phase(NAME, "Running", workersReady="3/3")
    assert not [item for item in job["status"]["conditions"] if item["type"] == "Synced"]


async def test_a_job_deleted_while_it_is_reconciled_is_no_error(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    once = Once("PATCH", "/status", refuse(404))
    cluster.server.faults = once
    await cluster.start_operator()
    await cluster.create(distributed())

    async def happened() -> bool:
        return bool(once.happened)

    await cluster.until(happened)
    await cluster.client.delete(CHAINER_JOBS, NAME, "default")

    async def gone() -> bool:
        return await cluster.find(STATEFUL_SETS, f"{NAME}-workerset-ws0") is None

    await cluster.until(gone)
    assert "reconcile failed" not in capsys.readouterr().err


async def test_defaults_that_cannot_be_stored_are_used_nevertheless(cluster: Cluster) -> None:
    def refuse_spec(method: str, path: str, agent: str) -> Fault | None:
        mine = agent.startswith(OPERATOR_AGENT) and method == "PATCH"
        return refuse(403) if mine and path.partition("?")[0].endswith(f"/{NAME}") else None

    cluster.server.faults = refuse_spec
    await cluster.start_operator()
    manifest = distributed()
    del manifest["spec"]["backend"], manifest["spec"]["master"]["mpiConfig"]
    await cluster.create(manifest)
    await cluster.run_workers(2)
    await cluster.end_pod(await cluster.run_master(), 0)
    job = await cluster.until_phase(NAME, "Succeeded")

    assert "backend" not in job["spec"]


async def test_a_child_of_an_earlier_job_that_is_not_in_the_cache(cluster: Cluster) -> None:
    """The API still has it, our cache (which goes by a label) does not."""
    earlier = {
        "apiVersion": "kubeflow.org/v1alpha1",
        "kind": "ChainerJob",
        "name": NAME,
        "uid": "00000000-0000-0000-0000-000000000000",
        "controller": True,
    }
    metadata = {"name": f"{NAME}-assets", "ownerReferences": [earlier]}
    blocked = True

    def keep(method: str, path: str, agent: str) -> Fault | None:
        garbage = method == "DELETE" and "/configmaps" in path and agent.startswith("controllers")
        return refuse(503) if garbage and blocked else None

    cluster.server.faults = keep
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    await cluster.client.create(CONFIG_MAPS, document, "default")
    await cluster.start_operator()
    await cluster.create(distributed())
    text = "ConfigMap digits-mn-assets of an earlier ChainerJob of this name is still being deleted"
    await cluster.until_phase(NAME, "Created", reason="WaitingForDeletion", message=text)

    blocked = False
    await cluster.until_phase(NAME, "Created", message="0/2 workers ready")
    reasons = [reason for _, reason, _ in await cluster.events_of(NAME)]
    assert "ErrResourceExists" not in reasons
