"""`/metrics` of the API server: upstream's names, and labels that clients cannot make up."""

import contextlib

from prometheus_client.parser import text_string_to_metric_families

from local.apiserver.authorization.support import Robot, urls
from local.apiserver.support import DEFINITIONS, MAPS, PODS, Api, config_map, definition, pod

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


async def scraped(api: Api) -> Series:
    answer = await api.get("/metrics")
    assert answer.code == 200
    assert answer.headers["Content-Type"].startswith("text/plain")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
    }


def requests(found: Series, **labels: str) -> float:
    """Return how many requests with these labels were counted."""
    return sum(
        value
        for (name, values), value in found.items()
        if name == "apiserver_request_total" and labels.items() <= dict(values).items()
    )


async def test_requests_and_objects_are_counted(api: Api) -> None:
    for name in ("a", "b"):
        (await api.post(MAPS, config_map(name))).ok(201)
    (await api.post(MAPS, config_map("c"), dryRun="All")).ok(201)
    (await api.get(MAPS)).ok()
    (await api.get("/api/v1/configmaps")).ok()
    (await api.get(f"{MAPS}/missing")).refused(404)
    (await api.post(PODS, pod("p"))).ok(201)
    (await api.patch(f"{PODS}/p/status", {"status": {"phase": "Running"}})).ok()
    (await api.delete(MAPS)).ok()
    async with api.watch(PODS) as watching:
        await watching.next()
    found = await scraped(api)
    maps = {"group": "", "version": "v1", "resource": "configmaps", "component": "apiserver"}
    created = {**maps, "verb": "POST", "scope": "resource", "subresource": "", "code": "201"}
    assert requests(found, **created, dry_run="") == 2
    assert requests(found, **created, dry_run="All") == 1
    assert requests(found, **maps, verb="LIST", scope="namespace", code="200") == 1
    assert requests(found, **maps, verb="LIST", scope="cluster", code="200") == 1
    assert requests(found, **maps, verb="GET", scope="resource", code="404") == 1
    assert requests(found, **maps, verb="DELETECOLLECTION") == 1
    assert requests(found, resource="pods", verb="PATCH", subresource="status") == 1
    assert found["apiserver_storage_objects", frozenset({("resource", "pods")})] == 1
    label = frozenset({("resource", "namespaces")})
    assert found["apiserver_storage_objects", label] == 4
    durations = {
        dict(labels)["verb"]: value
        for (name, labels), value in found.items()
        if name == "apiserver_request_duration_seconds_count"
        and dict(labels)["resource"] == "configmaps"
        and dict(labels)["dry_run"] == ""
        and dict(labels)["scope"] == "resource"
    }
    assert durations == {"POST": 2, "GET": 1}
    assert found["process_resident_memory_bytes", frozenset()] > 1e6
    assert found["process_cpu_seconds_total", frozenset()] > 0


async def test_clients_make_up_no_series(api: Api) -> None:
    (await api.post(DEFINITIONS, definition())).ok(201)
    await scraped(api)  # which is counted itself
    before = len(await scraped(api))
    for number in range(20):
        paths = (
            f"/apis/group-{number}/v1/things",
            f"/api/v1/namespaces/n{number}/configmaps/x{number}",
            f"/api/v1/namespaces/default/pods/x/thing{number}",
            f"/apis/example.com/v{number}/widgets",
            f"/other/{number}",
            f"//api//{number}",
        )
        for path in paths:
            with contextlib.suppress(ValueError):
                await api.get(path)
        await api.request(f"VERB{number}", MAPS)
    after = await scraped(api)
    assert len(after) - before < 200  # a few series, each with its buckets
    values = {value for _, labels in after for _, value in labels}
    assert not {value for value in values if value.startswith(("group-", "thing", "x", "VERB"))}


async def test_metrics_need_a_right(api: Api) -> None:
    robot = await Robot.create(api)
    assert (await robot.get("/metrics")).code == 403
    await robot.grant(urls("get", "/metrics"), cluster=True)
    assert (await robot.get("/metrics")).code == 200
