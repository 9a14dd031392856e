"""What the operator writes for MxJobs, where chance decides what it observes first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness import MX_JOBS, OPERATOR_AGENT, PODS
from plan.mxjob.manifests import OLDER_GROUP, distributed, local
from traincrew.engine.resources import JOBS

if TYPE_CHECKING:
    from harness import Cluster
    from traincrew.local.apiserver.http.faults import Fault


async def test_jobs_of_one_name_in_both_groups_do_not_share_children(cluster: Cluster) -> None:
    await cluster.start_operator()
    await cluster.create(local("twin", RuntimeId="r1"))
    await cluster.run_replicas("twin", 1)
    await cluster.until_phase("twin", "Running")
    await cluster.create(local("twin", group=OLDER_GROUP, RuntimeId="r1"))

    second = await cluster.until_phase("twin", "Creating", message="already exists")
    assert second["status"]["message"].endswith("its owner is MxJob.mxnet.mlkube.io twin")
    first = await cluster.client.get(MX_JOBS, "twin", "default")
    assert first["status"]["phase"] == "Running"


async def test_jobs_of_one_name_in_both_groups_may_run_side_by_side(cluster: Cluster) -> None:
    await cluster.start_operator()
    await cluster.create(local("twin"))
    await cluster.run_replicas("twin", 1)
    await cluster.until_phase("twin", "Running")
    await cluster.create(local("twin", group=OLDER_GROUP))
    await cluster.run_replicas("twin", 1)
    await cluster.until_phase("twin", "Running")


async def test_everything_of_an_attempt_that_has_ended_is_deleted_once(cluster: Cluster) -> None:
    deleted: list[str] = []

    def listen(method: str, path: str, agent: str) -> Fault | None:
        if method == "DELETE" and agent.startswith(OPERATOR_AGENT):
            deleted.append(path.partition("?")[0])
        return None

    cluster.server.faults = listen
    await cluster.start_operator()
    await cluster.create(distributed("digits", workers=3))
    pods = await cluster.run_replicas("digits", 5)
    await cluster.until_phase("digits", "Running")
    await cluster.end_pod(pods["worker-1"], 137)
    await cluster.run_replicas("digits", 5)
    await cluster.until_phase("digits", "Running", restarts="1")

    assert len(deleted) == len(set(deleted)) == 2 * len(pods)

    async def told() -> bool:
        found = [
            text for _, reason, text in await cluster.events_of("digits") if "Delete" in reason
        ]
        starts = [text.split(":")[0] for text in sorted(found)]
        assert starts == ["Deleted 5 jobs", "Deleted 5 pods"]
        return True

    await cluster.until(told)


async def test_a_replica_that_has_ended_keeps_its_pod(cluster: Cluster) -> None:
    """A kubelet writes that containers have ended before the phase of their pod."""
    await cluster.start_operator()
    await cluster.create(distributed("digits", workers=1))
    pods = await cluster.run_replicas("digits", 3)
    await cluster.until_phase("digits", "Running")
    for key in ("scheduler-0", "worker-0"):
        await cluster.set_pod(pods[key]["metadata"]["name"], ended(0))
    await cluster.set_pod(pods["server-0"]["metadata"]["name"], ended(0))
    await cluster.until_phase("digits", "Done", state="Succeeded")

    assert not [job for job in await cluster.all(JOBS) if job["spec"]["suspend"]]
    assert len(await cluster.all(PODS)) == 3


async def test_the_status_says_by_whom_a_pod_was_ended(cluster: Cluster) -> None:
    await cluster.start_operator()
    await cluster.create(distributed("digits", workers=1))
    pods = await cluster.run_replicas("digits", 3)
    await cluster.until_phase("digits", "Running")
    name = pods["server-0"]["metadata"]["name"]
    path = f"/api/v1/namespaces/default/pods/{name}/eviction"
    metadata = {"name": name, "namespace": "default"}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    await cluster.client.request("POST", path, body=body)
    await cluster.run_replicas("digits", 3)
    job = await cluster.until_phase("digits", "Running", restarts="1")

    assert "failures" not in job["status"]
    assert job["status"]["lastRestartReason"] == (
        f"Server 0 failed: pod {name}: EvictionByEvictionAPI: Eviction API: evicting."
        " All replicas are restarted (not counted)."
    )


def ended(code: int) -> dict[str, Any]:
    """Return the status of a pod whose container has just ended."""
    container = {"name": "mxnet", "ready": False, "restartCount": 0, "image": "x", "imageID": ""}
    state = {"terminated": {"exitCode": code, "reason": "Completed"}}
    return {"phase": "Running", "containerStatuses": [{**container, "state": state}]}
