"""Quotas and limit ranges in the API server; `suites/differential` compares all messages."""

import asyncio
from typing import Any

from local.apiserver.support import PODS, Api, pod

QUOTAS = PODS.replace("pods", "resourcequotas")
LIMITS = PODS.replace("pods", "limitranges")
SERVICES = PODS.replace("pods", "services")
CLAIMS = PODS.replace("pods", "persistentvolumeclaims")
Document = dict[str, Any]


async def limit(api: Api, hard: Document, used: Document | None = None, **spec: Any) -> None:
    """Create a quota with a known usage."""
    quota = {"metadata": {"name": "team"}, "spec": {"hard": hard, **spec}}
    (await api.post(QUOTAS, quota)).ok(201)
    status = {"hard": hard, "used": dict.fromkeys(hard, "0") | (used or {})}
    (await api.put(f"{QUOTAS}/team/status", {**quota, "status": status})).ok()


async def used(api: Api) -> Document:
    result: Document = (await api.get(f"{QUOTAS}/team")).ok()["status"]["used"]
    return result


def asking(name: str, requests: Document, limits: Document | None = None, **spec: Any) -> Document:
    document = pod(name, **spec)
    document["spec"]["containers"][0]["resources"] = {
        "requests": requests,
        "limits": limits or {},
    }
    return document


async def test_objects_over_the_quota_are_rejected(api: Api) -> None:
    await limit(api, {"pods": "2", "requests.cpu": "1"})
    (await api.post(PODS, asking("a", {"cpu": "600m"}))).ok(201)
    assert await used(api) == {"pods": "1", "requests.cpu": "600m"}

    (await api.post(PODS, asking("b", {"cpu": "500m"}))).refused(
        403,
        "Forbidden",
        'pods "b" is forbidden: exceeded quota: team, requested: requests.cpu=500m, '
        "used: requests.cpu=600m, limited: requests.cpu=1",
    )
    (await api.post(PODS, pod("b"))).refused(
        403, "Forbidden", 'pods "b" is forbidden: failed quota: team: must specify requests.cpu '
        "for: main",
    )  # fmt: skip
    assert await used(api) == {"pods": "1", "requests.cpu": "600m"}


async def test_concurrent_writes_do_not_exceed_the_quota(api: Api) -> None:
    await limit(api, {"pods": "7"})
    answers = await asyncio.gather(*(api.post(PODS, pod(f"p-{n}")) for n in range(40)))
    assert sorted(answer.code for answer in answers) == [201] * 7 + [403] * 33
    assert await used(api) == {"pods": "7"}


async def test_a_dry_run_and_a_rejected_object_use_nothing(api: Api) -> None:
    await limit(api, {"pods": "2"})
    (await api.post(PODS, pod("a"))).ok(201)
    (await api.post(f"{PODS}?dryRun=All", pod("b"))).ok(201)
    (await api.post(PODS, pod("a"))).refused(409)
    assert await used(api) == {"pods": "1"}


async def test_a_service_that_changes_its_type_uses_more(api: Api) -> None:
    await limit(api, {"services": "2", "services.nodeports": "1"})
    spec: dict[str, Any] = {"ports": [{"port": 80}, {"port": 81, "name": "x"}]}
    spec["ports"][0]["name"] = "w"
    (await api.post(SERVICES, {"metadata": {"name": "s"}, "spec": spec})).ok(201)
    assert await used(api) == {"services": "1", "services.nodeports": "0"}
    change = {"spec": {"type": "NodePort"}}
    (await api.patch(f"{SERVICES}/s", change)).refused(403, "Forbidden")
    fewer = {"spec": {"type": "NodePort", "ports": [{"port": 80}]}}
    (await api.patch(f"{SERVICES}/s", fewer)).ok()
    assert await used(api) == {"services": "1", "services.nodeports": "1"}


async def test_a_quota_of_gpus(api: Api) -> None:
    await limit(api, {"requests.nvidia.com/gpu": "4"})
    gpus = {"nvidia.com/gpu": "3"}
    (await api.post(PODS, asking("a", gpus, gpus))).ok(201)
    (await api.post(PODS, asking("b", gpus, gpus))).refused(403, "Forbidden")
    (await api.post(PODS, pod("without"))).ok(201)
    assert await used(api) == {"requests.nvidia.com/gpu": "3"}


async def test_a_quota_in_a_scope(api: Api) -> None:
    await limit(api, {"pods": "0"}, scopes=["BestEffort"])
    (await api.post(PODS, pod("a"))).refused(403, "Forbidden")
    (await api.post(PODS, asking("b", {"cpu": "1m"}))).ok(201)


async def test_the_server_itself_is_not_limited(api: Api) -> None:
    """A quota must not prevent the API server from creating its own Service at start."""
    await limit(api, {"services": "0"})
    (await api.post(SERVICES, {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 1}]}})
     ).refused(403, "Forbidden")  # fmt: skip
    (await api.delete(f"{SERVICES}/kubernetes")).ok()
    await api.server.stop()
    await api.server.start()
    assert api.storage.get("services", ("default", "kubernetes")) is not None


async def test_limit_ranges_set_defaults_of_containers(api: Api) -> None:
    container = {"type": "Container", "default": {"cpu": "500m"}, "max": {"memory": "1Gi"}}
    body = {"metadata": {"name": "l"}, "spec": {"limits": [container]}}
    (await api.post(LIMITS, body)).ok(201)

    created = (await api.post(PODS, pod("a"))).ok(201)
    assert created["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "500m", "memory": "1Gi"},
        "requests": {"cpu": "500m", "memory": "1Gi"},
    }
    assert created["status"]["qosClass"] == "Guaranteed"
    assert created["metadata"]["annotations"] == {
        "kubernetes.io/limit-ranger": "LimitRanger plugin set: cpu, memory request for container "
        "main; cpu, memory limit for container main"
    }
    (await api.post(PODS, asking("b", {}, {"memory": "2Gi"}))).refused(
        403,
        "Forbidden",
        'pods "b" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi',
    )


async def test_limit_ranges_of_claims(api: Api) -> None:
    bounds = {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}
    (await api.post(LIMITS, {"metadata": {"name": "l"}, "spec": {"limits": [bounds]}})).ok(201)
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}
    (await api.post(CLAIMS, {"metadata": {"name": "c"}, "spec": spec})).refused(
        403,
        "Forbidden",
        'persistentvolumeclaims "c" is forbidden: maximum storage usage per '
        "PersistentVolumeClaim is 1Gi, but request is 2Gi",
    )


async def test_invalid_quotas_and_limit_ranges_are_rejected(api: Api) -> None:
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"apples": "1"}}}
    (await api.post(QUOTAS, quota)).refused(422, "Invalid")
    limit = {"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}
    body = {"metadata": {"name": "l"}, "spec": {"limits": [limit]}}
    (await api.post(LIMITS, body)).refused(422, "Invalid")
