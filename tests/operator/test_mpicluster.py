"""MPIClusters with the operator and the embedded API server; tests set the state of pods."""

from __future__ import annotations

from typing import Any

from harness import MPI_CLUSTERS, OPERATOR_AGENT, PODS, STATEFUL_SETS, Cluster
from plan.mpicluster.manifests import interactive, one_shot
from traincrew.engine.resources import CONFIG_MAPS, SECRETS, SERVICES, Resource

NAME = "hello"
OWN = ("hello-worker", "hello-assets", "hello-ssh-key", "hello", "hello-ssh-gateway")
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
POLICIES = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")


async def hostfile(cluster: Cluster) -> list[str]:
    """Return the hosts of the hostfile, without the name of the cluster."""
    assets = await cluster.client.get(CONFIG_MAPS, f"{NAME}-assets", "default")
    lines = assets["data"]["hostfile"].splitlines()
    return [line.removeprefix(f"{NAME}-").removesuffix(f".{NAME}") for line in lines]


async def until_hosts(cluster: Cluster, *hosts: str) -> None:
    """Wait for a hostfile."""

    async def check() -> bool:
        found = await hostfile(cluster)
        assert found == list(hosts)
        return True

    await cluster.until(check)


async def started(cluster: Cluster, manifest: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Create a cluster, and set its pods to running."""
    await cluster.create(manifest)
    count = manifest["spec"]["workers"]["replicas"]
    if count:
        await cluster.run_hosts(NAME, *(f"worker-{index}" for index in range(count)))
    await cluster.run_hosts(NAME, "master")
    await cluster.until_phase(NAME, "Running", workersReady=f"{count}/{count}")
    return await cluster.hosts(NAME)


async def set_command(cluster: Cluster, restarts: int, *, exit_code: int | None) -> None:
    """Set the container of the master to running, or to waiting after it has failed."""
    state: dict[str, Any] = {"running": {}}
    last: dict[str, Any] = {}
    if exit_code is not None:
        state = {"waiting": {"reason": "CrashLoopBackOff"}}
        last = {"terminated": {"exitCode": exit_code, "reason": "Error", "message": "no route"}}
    container = {"name": "mpi-master", "ready": False, "image": "x", "imageID": ""}
    status = {**container, "restartCount": restarts, "state": state, "lastState": last}
    await cluster.set_pod(f"{NAME}-master", {"phase": "Running", "containerStatuses": [status]})


async def test_an_interactive_cluster_from_creation_to_deletion(cluster: Cluster) -> None:
    await cluster.start_operator()
    await cluster.create(interactive(NAME, workers=2))
    await cluster.until_phase(
        NAME, "Created", reason="WaitingForWorkers", message="0/2 workers ready"
    )
    await cluster.run_hosts(NAME, "worker-0", "worker-1")
    await cluster.run_hosts(NAME, "master")
    job = await cluster.until_phase(
        NAME, "Running", mode="Interactive", message="The master and 2 workers are running."
    )
    assert job["status"]["sshKeySecretName"] == f"{NAME}-ssh-key"
    assert await hostfile(cluster) == ["master", "worker-0", "worker-1"]
    master = await cluster.client.get(PODS, f"{NAME}-master", "default")
    assert (master["spec"]["hostname"], master["spec"]["subdomain"]) == (f"{NAME}-master", NAME)
    service = await cluster.client.get(SERVICES, NAME, "default")
    assert service["spec"]["clusterIP"] == "None"

    await cluster.client.delete(MPI_CLUSTERS, NAME, "default")

    async def gone() -> bool:
        for resource in (PODS, STATEFUL_SETS, CONFIG_MAPS, SECRETS, SERVICES):
            names = {item["metadata"]["name"] for item in await cluster.all(resource)}
            assert not names & {*OWN, f"{NAME}-master"}
        return True

    await cluster.until(gone)


async def test_kubectl_scale_of_either_is_respected(cluster: Cluster) -> None:
    await cluster.start_operator()
    await started(cluster, interactive(NAME, workers=2))
    scale = {"spec": {"replicas": 1}}
    path = STATEFUL_SETS.path("default", f"{NAME}-worker", "scale")
    merge = "application/merge-patch+json"
    await cluster.client.request("PATCH", path, body=scale, content_type=merge)
    await until_hosts(cluster, "master", "worker-0")
    await cluster.until_phase(NAME, "Running", workersReady="1/1")

    scale = {"spec": {"replicas": 3}}
    path = MPI_CLUSTERS.path("default", NAME, "scale")
    await cluster.client.request("PATCH", path, body=scale, content_type=merge)
    await cluster.run_hosts(NAME, "worker-1", "worker-2")
    await until_hosts(cluster, "master", "worker-0", "worker-1", "worker-2")
    await cluster.until_phase(NAME, "Running", workersReady="3/3")

    await cluster.client.request("PATCH", path, body={"spec": {"replicas": 0}}, content_type=merge)
    await until_hosts(cluster, "master")
    job = await cluster.until_phase(NAME, "Running", workersReady="0/0")
    assert job["status"]["restarts"] == 0


async def test_a_master_is_touched_after_the_hostfile_has_changed(cluster: Cluster) -> None:
    await cluster.start_operator()
    await started(cluster, interactive(NAME, workers=2))
    writes: list[str] = []

    def note(method: str, path: str, agent: str) -> None:
        if method == "PATCH" and agent.startswith(OPERATOR_AGENT) and "status" not in path:
            writes.append(path.partition("?")[0].rpartition("/")[2])

    cluster.server.faults = note
    not_ready = [{"type": "Ready", "status": "False"}]
    await cluster.set_pod(f"{NAME}-worker-1", {"conditions": not_ready})
    await until_hosts(cluster, "master", "worker-0")

    async def touched() -> bool:
        return len(writes) == 2

    await cluster.until(touched)
    assert writes == [f"{NAME}-assets", f"{NAME}-master"]


async def test_a_lost_master_is_created_again(cluster: Cluster) -> None:
    await cluster.start_operator()
    before = await started(cluster, interactive(NAME, workers=1))
    await cluster.client.delete(PODS, f"{NAME}-master", "default")
    await cluster.run_hosts(NAME, "master")
    await cluster.until_phase(NAME, "Running", restarts="1")
    after = await cluster.hosts(NAME)
    assert after["worker-0"]["metadata"]["uid"] == before["worker-0"]["metadata"]["uid"]
    assert after["master"]["metadata"]["uid"] != before["master"]["metadata"]["uid"]


async def test_a_command_is_retried_in_its_pod_and_ends_the_cluster(cluster: Cluster) -> None:
    await cluster.start_operator()
    hosts = await started(cluster, one_shot(NAME, workers=1))
    await set_command(cluster, 0, exit_code=3)
    await cluster.until_phase(
        NAME, "Restarting", reason="MasterFailed", message="exited with code 3: no route"
    )
    await set_command(cluster, 1, exit_code=None)
    await cluster.until_phase(NAME, "Running", failures="1")
    await cluster.end_pod(hosts["master"], 0)
    await cluster.until_phase(NAME, "Succeeded", exitCode="0", failures="1")

    async def alone() -> bool:
        return set(await cluster.hosts(NAME)) == {"master"}

    await cluster.until(alone)

    async def told() -> bool:
        reasons = [reason for _, reason, _ in await cluster.events_of(NAME)]
        return "MPIClusterSucceeded" in reasons

    await cluster.until(told)


async def test_a_command_that_fails_too_often_is_stopped_and_keeps_its_pod(
    cluster: Cluster,
) -> None:
    await cluster.start_operator()
    await started(cluster, one_shot(NAME, workers=1, runPolicy={"backoffLimit": 1}))
    await set_command(cluster, 1, exit_code=7)
    job = await cluster.until_phase(
        NAME, "Failed", reason="BackoffLimitExceeded", exitCode="7", failures="2"
    )
    assert "container mpi-master exited with code 7: no route" in job["status"]["message"]

    async def stopped() -> bool:
        hosts = await cluster.hosts(NAME)
        assert set(hosts) == {"master"}
        return bool(hosts["master"]["spec"].get("activeDeadlineSeconds") == 1)

    await cluster.until(stopped)


async def test_an_evicted_master_is_no_failure(cluster: Cluster) -> None:
    await cluster.start_operator()
    await started(cluster, one_shot(NAME, workers=0, runPolicy={"backoffLimit": 0}))
    path = f"/api/v1/namespaces/default/pods/{NAME}-master/eviction"
    metadata = {"name": f"{NAME}-master", "namespace": "default"}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    await cluster.client.request("POST", path, body=body)
    await cluster.run_hosts(NAME, "master")
    job = await cluster.until_phase(NAME, "Running", restarts="1")
    assert "failures" not in job["status"]


async def test_suspend_and_resume(cluster: Cluster) -> None:
    await cluster.start_operator()
    await started(cluster, interactive(NAME, workers=2))
    await cluster.edit(NAME, {"runPolicy": {"suspend": True}})
    await cluster.until_phase(NAME, "Suspended", message="No pod is left.")
    assert await cluster.hosts(NAME) == {}
    await cluster.edit(NAME, {"runPolicy": {"suspend": False}})
    await cluster.run_hosts(NAME, "worker-0", "worker-1")
    await cluster.run_hosts(NAME, "master")
    await cluster.until_phase(NAME, "Running", restarts="0")


async def test_an_operator_that_is_killed_is_continued(cluster: Cluster) -> None:
    await cluster.start_operator()
    await cluster.create(one_shot(NAME, workers=1))
    await cluster.run_hosts(NAME, "worker-0")
    await cluster.kill_operator()
    await cluster.start_operator()
    (pod,) = (await cluster.run_hosts(NAME, "master")).values()
    await cluster.until_phase(NAME, "Running")
    await cluster.kill_operator()
    await set_command(cluster, 0, exit_code=1)
    for _ in range(2):
        await cluster.start_operator()
        await cluster.until_phase(NAME, "Restarting", failures="1")
        await cluster.kill_operator()
    await set_command(cluster, 1, exit_code=None)
    await cluster.end_pod(pod, 0)
    await cluster.start_operator()
    await cluster.until_phase(NAME, "Succeeded", failures="1")


async def test_optional_children_come_and_go(cluster: Cluster) -> None:
    await cluster.start_operator()
    await started(cluster, interactive(NAME, workers=1))
    optional = {
        SERVICES: {f"{NAME}-ssh-gateway"},
        BUDGETS: {f"{NAME}-worker-pdb"},
        POLICIES: {f"{NAME}-allow-internal", f"{NAME}-allow-from-external"},
    }

    async def there(*, wanted: bool) -> bool:
        for resource, names in optional.items():
            found = {item["metadata"]["name"] for item in await cluster.all(resource)}
            assert found & names == (names if wanted else set())
        return True

    async def has_come() -> bool:
        return await there(wanted=True)

    async def has_gone() -> bool:
        return await there(wanted=False)

    for enabled, check in ((True, has_come), (False, has_gone)):
        on = {"enabled": enabled}
        await cluster.edit(
            NAME,
            {
                "ssh": {"gateway": on},
                "networkPolicy": on,
                "workers": {"podDisruptionBudget": on},
            },
        )
        await cluster.until(check)


async def test_few_requests_are_made_for_a_cluster(cluster: Cluster) -> None:
    """Children, the status, and their changes; and none of them concerns the Secret again."""
    requests: list[str] = []

    def note(method: str, path: str, agent: str) -> None:
        if agent.startswith(OPERATOR_AGENT) and (method != "GET" or "/secrets" in path):
            word = "DRY RUN" if "dryRun" in path else method
            requests.append(f"{word} {path.partition('?')[0].rpartition('/')[2]}")

    cluster.server.faults = note
    await cluster.start_operator()
    hosts = await started(cluster, one_shot(NAME, workers=2))
    await cluster.end_pod(hosts["master"], 0)
    await cluster.until_phase(NAME, "Succeeded")
    assert [each for each in requests if "secrets" in each] == ["POST secrets"], requests
    children = [each for each in requests if each.startswith("POST") and "events" not in each]
    assert sorted(children) == [
        "POST configmaps",
        "POST pods",
        "POST secrets",
        "POST services",
        "POST statefulsets",
    ]
    assert requests.count("DRY RUN pods") <= 1, requests
    others = [each for each in requests if each.startswith("PATCH") and "events" not in each]
    assert len([each for each in others if each.endswith("status")]) <= 6, requests
    assert len([each for each in others if each.endswith("-assets")]) == 1, requests
