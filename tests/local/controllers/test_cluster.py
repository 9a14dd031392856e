"""The controllers against the real API server; pods run only according to their status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from local.controlplane import control_plane, template, timestamp
from traincrew.engine.resources import (
    CONFIG_MAPS,
    CONTROLLER_REVISIONS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    ENDPOINTS,
    EVENTS,
    JOBS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)

NETWORK_POLICIES = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from local.controlplane import World


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with control_plane() as running:
        yield running


def job(name: str = "pi", restart: str = "Never", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"template": template(restart)} | spec}


def stateful_set(name: str = "web", replicas: int = 3, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "selector": {"matchLabels": {"app": "a"}},
            "template": template(),
        }
        | spec,
    }


# -- Job -----------------------------------------------------------------------------------------


async def test_a_job_runs_to_completion(world: World) -> None:
    await world.create(JOBS, job(completions=3, parallelism=2))
    first = await world.until_pods(2, **{"job-name": "pi"})
    await world.until_status(JOBS, "pi", active=2, ready=2)

    for pod in first:
        await world.finish(pod)

    async def last() -> Any:
        return [pod for pod in await world.pods() if pod["status"]["phase"] == "Running"]

    (third,) = await world.until(last)
    await world.finish(third)
    await world.until_condition(JOBS, "pi", "Complete")
    status = (await world.get(JOBS, "pi") or {})["status"]
    assert status["succeeded"] == 3
    assert status["uncountedTerminatedPods"] == {}
    assert "active" not in status
    assert status["completionTime"]
    assert all("finalizers" not in pod["metadata"] for pod in await world.pods())
    events = await world.events("pi")
    assert sorted(reason for reason, _ in events) == ["Completed"] + ["SuccessfulCreate"] * 3
    assert ("SuccessfulCreate", f"Created pod: {third['metadata']['name']}") in events


async def test_a_job_fails_and_its_pods_are_counted(world: World) -> None:
    await world.create(JOBS, job(backoffLimit=0, parallelism=2, completions=2))
    pods = await world.until_pods(2)

    await world.finish(pods[0], 3)

    failed = await world.until_condition(JOBS, "pi", "Failed")
    assert failed["reason"] == "BackoffLimitExceeded"
    assert failed["message"] == "Job has reached the specified backoff limit"
    status = (await world.get(JOBS, "pi") or {})["status"]
    assert status["failed"] == 2
    assert [item["type"] for item in status["conditions"]] == ["FailureTarget", "Failed"]
    reasons = [reason for reason, _ in await world.events("pi")]
    assert reasons.count("BackoffLimitExceeded") == 1
    assert reasons.count("SuccessfulDelete") == 1


async def test_a_deadline_ends_a_job(world: World) -> None:
    # Times are whole seconds, so that the end may come a moment after the start.
    await world.create(JOBS, job(activeDeadlineSeconds=1))

    condition = await world.until_condition(JOBS, "pi", "Failed")

    assert condition["reason"] == "DeadlineExceeded"
    await world.until_status(JOBS, "pi", failed=1)
    await world.until_pods(0)


async def test_a_deleted_pod_is_counted_and_replaced_later(world: World) -> None:
    await world.create(JOBS, job())
    (pod,) = await world.until_pods(1)

    await world.client.delete(PODS, pod["metadata"]["name"], "default")

    await world.until_status(JOBS, "pi", failed=1)
    await world.until_gone(PODS, pod["metadata"]["name"])
    assert await world.pods() == []  # ten seconds of back-off


async def test_suspending_deletes_the_pods(world: World) -> None:
    await world.create(JOBS, job(parallelism=2, completions=2))
    await world.until_pods(2)

    await world.client.patch(JOBS, "pi", "default", patch={"spec": {"suspend": True}})
    await world.until_condition(JOBS, "pi", "Suspended")
    await world.until_pods(0)
    status = (await world.until_status(JOBS, "pi", terminating=0))["status"]
    assert "startTime" not in status
    assert "failed" not in status

    await world.client.patch(JOBS, "pi", "default", patch={"spec": {"suspend": False}})
    await world.until_pods(2)
    assert [reason for reason, _ in await world.events("pi") if "uspend" in reason] == ["Suspended"]


async def test_deleting_a_job_in_the_background_leaves_nothing(world: World) -> None:
    await world.create(JOBS, job(parallelism=3, completions=3))
    await world.until_pods(3)

    await world.client.delete(JOBS, "pi", "default", propagation="Background")

    await world.until_gone(JOBS, "pi")
    await world.until_pods(0)


async def test_deleting_a_job_in_the_foreground_waits_for_its_pods(world: World) -> None:
    await world.create(JOBS, job())
    (pod,) = await world.until_pods(1)
    assert world.kubelet is not None
    world.kubelet.ends = False

    await world.client.delete(JOBS, "pi", "default", propagation="Foreground")

    async def terminating() -> bool:
        found = await world.get(PODS, pod["metadata"]["name"])
        return bool(found and found["metadata"].get("deletionTimestamp"))

    await world.until(terminating)
    assert await world.get(JOBS, "pi") is not None
    await world.client.delete(PODS, pod["metadata"]["name"], "default", grace_period=0)
    await world.until_gone(JOBS, "pi")
    assert await world.pods() == []


async def test_orphaned_pods_stay_and_can_be_deleted(world: World) -> None:
    await world.create(JOBS, job())
    (pod,) = await world.until_pods(1)

    await world.client.delete(JOBS, "pi", "default", propagation="Orphan")
    await world.until_gone(JOBS, "pi")

    async def free() -> Any:
        (found,) = await world.pods()
        return not found["metadata"].get("ownerReferences") and not found["metadata"].get(
            "finalizers"
        )

    await world.until(free, "the pod has no owner")
    await world.client.delete(PODS, pod["metadata"]["name"], "default")
    await world.until_pods(0)


async def test_orphans_are_adopted_and_pods_that_do_not_match_are_released(world: World) -> None:
    await world.create(JOBS, job(parallelism=2, completions=2))
    pods = await world.until_pods(2)
    name = pods[0]["metadata"]["name"]
    uid = pods[0]["metadata"]["uid"]

    await world.client.patch(PODS, name, "default", patch={"metadata": {"ownerReferences": None}})

    async def adopted() -> bool:
        found = await world.get(PODS, name) or {}
        return bool(found["metadata"].get("ownerReferences"))

    await world.until(adopted, "the orphan is adopted")
    found = await world.get(PODS, name) or {}
    assert found["metadata"]["uid"] == uid
    assert found["metadata"]["finalizers"] == ["batch.kubernetes.io/job-tracking"]

    labels = {
        key: None
        for key in pods[0]["metadata"]["labels"]
        if key.startswith("batch.") or "job" in key or "controller" in key
    }
    await world.client.patch(PODS, name, "default", patch={"metadata": {"labels": labels}})

    async def released() -> bool:
        found = await world.get(PODS, name) or {}
        return not found["metadata"].get("ownerReferences")

    await world.until(released, "the unmatched pod is released")
    await world.until_pods(3)  # itself, and two that match


async def test_a_finished_job_is_deleted_after_its_ttl(world: World) -> None:
    await world.create(JOBS, job(ttlSecondsAfterFinished=0))
    (pod,) = await world.until_pods(1)

    await world.finish(pod)

    await world.until_gone(JOBS, "pi")
    await world.until_pods(0)


# -- StatefulSet ---------------------------------------------------------------------------------


async def test_a_stateful_set_starts_in_order_and_scales_down_in_reverse(world: World) -> None:
    await world.create(STATEFUL_SETS, stateful_set())
    pods = await world.until_pods(3)
    assert [pod["metadata"]["name"] for pod in pods] == ["web-0", "web-1", "web-2"]
    assert [pod["spec"]["hostname"] for pod in pods] == ["web-0", "web-1", "web-2"]
    born = [int(pod["metadata"]["resourceVersion"]) for pod in pods]
    assert born == sorted(born)
    status = (await world.until_status(STATEFUL_SETS, "web", availableReplicas=3))["status"]
    assert status["currentRevision"] == status["updateRevision"]

    await world.client.patch(STATEFUL_SETS, "web", "default", patch={"spec": {"replicas": 1}})

    (left,) = await world.until_pods(1)
    assert left["metadata"]["name"] == "web-0"
    await world.until_status(STATEFUL_SETS, "web", replicas=1)
    events = await world.events("web")
    assert ("SuccessfulCreate", "Create Pod web-0 in StatefulSet web successful") in events
    deleted = [text for reason, text in events if reason == "SuccessfulDelete"]
    assert deleted == [
        "Delete Pod web-2 in StatefulSet web successful",
        "Delete Pod web-1 in StatefulSet web successful",
    ]


async def test_a_failed_pod_is_recreated_under_its_name(world: World) -> None:
    await world.create(STATEFUL_SETS, stateful_set(podManagementPolicy="Parallel"))
    pods = await world.until_pods(3)

    await world.finish(pods[1], 1)

    async def back() -> bool:
        found = await world.get(PODS, "web-1")
        return bool(
            found
            and found["metadata"]["uid"] != pods[1]["metadata"]["uid"]
            and found["status"]["phase"] == "Running"
        )

    await world.until(back)
    assert (
        "RecreatingFailedPod",
        "StatefulSet default/web is recreating failed Pod web-1",
    ) in await world.events("web")


async def test_a_changed_template_rolls_out_from_the_highest_ordinal(world: World) -> None:
    await world.create(STATEFUL_SETS, stateful_set(podManagementPolicy="Parallel"))
    before = {pod["metadata"]["uid"] for pod in await world.until_pods(3)}
    await world.until_status(STATEFUL_SETS, "web", readyReplicas=3)
    changed = template(containers=[{"name": "main", "image": "busybox:2"}])

    await world.client.patch(STATEFUL_SETS, "web", "default", patch={"spec": {"template": changed}})

    async def done() -> bool:
        found = await world.get(STATEFUL_SETS, "web") or {}
        status = found["status"]
        return bool(
            status["observedGeneration"] == 2
            and status.get("updatedReplicas") == 3
            and status["currentRevision"] == status["updateRevision"]
        )

    await world.until(done)
    after = await world.until_pods(3)
    assert {pod["spec"]["containers"][0]["image"] for pod in after} == {"busybox:2"}
    assert not before & {pod["metadata"]["uid"] for pod in after}
    assert len(await world.list(CONTROLLER_REVISIONS)) == 2


async def test_claims_are_created_and_outlive_their_pods(world: World) -> None:
    claims = [
        {
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
    ]
    await world.create(STATEFUL_SETS, stateful_set(replicas=2, volumeClaimTemplates=claims))
    await world.until_pods(2)

    await world.client.patch(STATEFUL_SETS, "web", "default", patch={"spec": {"replicas": 0}})

    await world.until_pods(0)
    names = [claim["metadata"]["name"] for claim in await world.list(PERSISTENT_VOLUME_CLAIMS)]
    assert names == ["data-web-0", "data-web-1"]


async def test_claims_are_deleted_with_their_pods_if_the_policy_requires_it(world: World) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    policy = {"whenScaled": "Delete", "whenDeleted": "Delete"}
    await world.create(
        STATEFUL_SETS,
        stateful_set(
            replicas=2,
            volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": spec}],
            persistentVolumeClaimRetentionPolicy=policy,
        ),
    )
    await world.until_pods(2)
    bound = await world.until_status(PERSISTENT_VOLUME_CLAIMS, "data-web-0", phase="Bound")
    assert bound["status"]["capacity"] == {"storage": "1Gi"}

    await world.client.patch(STATEFUL_SETS, "web", "default", patch={"spec": {"replicas": 1}})
    await world.until_gone(PERSISTENT_VOLUME_CLAIMS, "data-web-1")
    assert await world.get(PERSISTENT_VOLUME_CLAIMS, "data-web-0") is not None

    await world.client.delete(STATEFUL_SETS, "web", "default")
    await world.until_gone(PERSISTENT_VOLUME_CLAIMS, "data-web-0")


async def test_deleting_a_stateful_set_deletes_its_children(world: World) -> None:
    await world.create(STATEFUL_SETS, stateful_set())
    await world.until_pods(3)

    await world.client.delete(STATEFUL_SETS, "web", "default")

    await world.until_pods(0)

    async def no_revisions() -> bool:
        return not await world.list(CONTROLLER_REVISIONS)

    await world.until(no_revisions)


async def test_a_pod_that_is_not_managed_by_the_set_is_reported(world: World) -> None:
    await world.create(PODS, {"metadata": {"name": "web-0"}, "spec": template()["spec"]})

    await world.create(STATEFUL_SETS, stateful_set(replicas=1))

    async def reported() -> bool:
        return any(
            reason == "FailedCreate" and "already exists" in text
            for reason, text in await world.events("web")
        )

    await world.until(reported)


# -- Deployment ----------------------------------------------------------------------------------


def deployment(replicas: int = 3, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "app"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "a"}},
            "template": template(),
        }
        | spec,
    }


@pytest.mark.parametrize("strategy", ["RollingUpdate", "Recreate"])
async def test_a_deployment_rolls_out(world: World, strategy: str) -> None:
    await world.create(DEPLOYMENTS, deployment(strategy={"type": strategy}))
    await world.until_pods(3)
    available = await world.until_condition(DEPLOYMENTS, "app", "Available")
    assert available["message"] == "Deployment has minimum availability."
    await world.until_status(DEPLOYMENTS, "app", readyReplicas=3, updatedReplicas=3)
    changed = template(containers=[{"name": "main", "image": "busybox:2"}])

    await world.client.patch(DEPLOYMENTS, "app", "default", patch={"spec": {"template": changed}})

    async def rolled() -> bool:
        pods = await world.pods()
        return [pod["spec"]["containers"][0]["image"] for pod in pods] == ["busybox:2"] * 3

    await world.until(rolled)

    async def complete() -> Any:
        found = await world.get(DEPLOYMENTS, "app") or {}
        return found["status"].get("availableReplicas") == 3 and [
            item
            for item in found["status"]["conditions"]
            if item["reason"] == "NewReplicaSetAvailable"
        ]

    await world.until(complete)
    sets = await world.list(REPLICA_SETS)
    assert sorted(item["spec"]["replicas"] for item in sets) == [0, 3]
    revisions = {
        item["spec"]["replicas"]: item["metadata"]["annotations"][
            "deployment.kubernetes.io/revision"
        ]
        for item in sets
    }
    assert revisions == {0: "1", 3: "2"}


async def test_a_deployment_scales_and_replaces(world: World) -> None:
    await world.create(DEPLOYMENTS, deployment(1))
    (pod,) = await world.until_pods(1)
    await world.client.patch(DEPLOYMENTS, "app", "default", patch={"spec": {"replicas": 4}})
    await world.until_pods(4)

    await world.client.delete(PODS, pod["metadata"]["name"], "default")
    await world.until_gone(PODS, pod["metadata"]["name"])
    await world.until_pods(4)

    await world.client.delete(DEPLOYMENTS, "app", "default", propagation="Foreground")
    await world.until_gone(DEPLOYMENTS, "app")
    assert await world.list(REPLICA_SETS) == []
    assert await world.pods() == []


# -- Services ------------------------------------------------------------------------------------


async def test_endpoints_follow_readiness(world: World) -> None:
    assert world.kubelet is not None
    world.kubelet.starts = False
    await world.create(
        SERVICES,
        {
            "metadata": {"name": "web"},
            "spec": {
                "clusterIP": "None",
                "selector": {"app": "a"},
                "ports": [{"name": "http", "port": 80, "targetPort": "web"}],
            },
        },
    )
    ports = [{"name": "web", "containerPort": 8080}]
    containers = [{"name": "main", "image": "busybox", "ports": ports}]
    pod = template(containers=containers)
    await world.create(STATEFUL_SETS, stateful_set(replicas=1, template=pod))

    async def made() -> Any:
        return await world.pods()

    async def slices_of_web() -> list[Any]:
        label = "kubernetes.io/service-name"
        slices = await world.list(ENDPOINT_SLICES)
        return [each for each in slices if each["metadata"]["labels"][label] == "web"]

    (created,) = await world.until(made)
    await world.status(created, {"phase": "Running", "podIP": "127.0.0.9"})

    async def waiting() -> Any:
        found = await world.get(ENDPOINTS, "web") or {}
        return [item.get("notReadyAddresses") for item in found.get("subsets") or ()]

    ((address,),) = await world.until(waiting)
    assert address["ip"] == "127.0.0.9"
    assert address["hostname"] == "web-0"
    assert address["targetRef"]["name"] == "web-0"

    ready = {"type": "Ready", "status": "True", "lastTransitionTime": timestamp()}
    await world.status(created, {"conditions": [ready]})

    async def serving() -> Any:
        found = await world.get(ENDPOINTS, "web") or {}
        return [item for item in found.get("subsets") or () if "addresses" in item]

    (subset,) = await world.until(serving)
    assert subset["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]

    async def sliced() -> Any:
        slices = await slices_of_web()
        ready = [item["conditions"]["ready"] for each in slices for item in each["endpoints"]]
        return slices if any(ready) else None

    (piece,) = await world.until(sliced)
    assert piece["endpoints"][0]["conditions"] == {
        "ready": True,
        "serving": True,
        "terminating": False,
    }

    await world.client.delete(SERVICES, "web", "default")
    await world.until_gone(ENDPOINTS, "web")

    async def no_slices() -> bool:
        return not await slices_of_web()

    await world.until(no_slices)


# -- namespaces ----------------------------------------------------------------------------------


async def test_a_namespace_gets_its_service_account_and_ca_bundle(world: World) -> None:
    await world.create(NAMESPACES, {"metadata": {"name": "team"}})

    async def there() -> bool:
        account = await world.get(SERVICE_ACCOUNTS, "default", "team")
        config = await world.get(CONFIG_MAPS, "kube-root-ca.crt", "team")
        return account is not None and config is not None

    await world.until(there)
    await world.client.delete(CONFIG_MAPS, "kube-root-ca.crt", "team")
    await world.client.delete(SERVICE_ACCOUNTS, "default", "team")
    await world.until(there)


async def test_a_deleted_namespace_is_emptied_first(world: World) -> None:
    await world.create(NAMESPACES, {"metadata": {"name": "team"}})
    await world.create(STATEFUL_SETS, stateful_set(), "team")
    await world.create(JOBS, job(), "team")
    await world.create(CONFIG_MAPS, {"metadata": {"name": "held", "finalizers": ["a.b/c"]}}, "team")

    async def running() -> bool:
        return len(await world.pods("team")) == 4

    await world.until(running)

    await world.client.delete(NAMESPACES, "team")

    async def stuck() -> Any:
        found = await world.get(NAMESPACES, "team") or {}
        return [
            condition["message"]
            for condition in found["status"].get("conditions") or ()
            if condition["type"] == "NamespaceFinalizersRemaining"
            and "a.b/c in 1 resource instances" in condition["message"]
        ]

    await world.until(stuck)

    async def only_the_map() -> bool:
        return not await world.pods("team") and not await world.list(JOBS, "team")

    await world.until(only_the_map)
    patch = {"metadata": {"finalizers": None}}
    await world.client.patch(CONFIG_MAPS, "held", "team", patch=patch)
    await world.until_gone(NAMESPACES, "team")
    assert await world.list(EVENTS, "team") == []


async def test_a_deleted_namespace_keeps_everything_while_it_has_pods(world: World) -> None:
    await world.create(NAMESPACES, {"metadata": {"name": "team"}})
    held = {"metadata": {"name": "held", "finalizers": ["a.b/c"]}, "spec": template()["spec"]}
    await world.create(PODS, held, "team")
    await world.create(CONFIG_MAPS, {"metadata": {"name": "settings"}}, "team")
    await world.client.delete(NAMESPACES, "team")

    async def reported() -> Any:
        found = await world.get(NAMESPACES, "team") or {}
        return {each["type"]: each["status"] for each in found["status"].get("conditions") or ()}

    assert await world.until(reported) == {
        "NamespaceDeletionDiscoveryFailure": "False",
        "NamespaceDeletionGroupVersionParsingFailure": "False",
        "NamespaceDeletionContentFailure": "False",
        "NamespaceContentRemaining": "True",
        "NamespaceFinalizersRemaining": "True",
    }
    assert await world.get(CONFIG_MAPS, "settings", "team") is not None
    await world.client.patch(PODS, "held", "team", patch={"metadata": {"finalizers": None}})
    await world.until_gone(NAMESPACES, "team")


async def test_kinds_that_are_only_stored_are_reported_once(world: World) -> None:
    policy = {"metadata": {"name": "closed"}, "spec": {"podSelector": {}}}
    await world.create(NETWORK_POLICIES, policy)
    service = {"metadata": {"name": "web"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}
    await world.create(SERVICES, service)

    async def reported() -> bool:
        first, second = await world.events("closed"), await world.events("web")
        return bool(first and second)

    await world.until(reported)
    ((reason, message),) = await world.events("closed")
    assert reason == "NotEmulated"
    assert message.startswith("the embedded cluster stores NetworkPolicy objects without acting")
    ((reason, message),) = await world.events("web")
    assert message.startswith("spec.type: NodePort gives no address outside the cluster")


async def test_a_disruption_budget_counts_healthy_pods(world: World) -> None:
    budget = {
        "metadata": {"name": "keep"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "a"}}},
    }
    await world.create(POD_DISRUPTION_BUDGETS, budget)
    await world.create(STATEFUL_SETS, stateful_set())

    await world.until_status(
        POD_DISRUPTION_BUDGETS, "keep", currentHealthy=3, desiredHealthy=2, disruptionsAllowed=1
    )
