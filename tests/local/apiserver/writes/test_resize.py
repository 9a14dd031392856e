"""The subresource ``resize`` of pods: what it changes, and what it refuses."""

from typing import Any

import pytest

from local.apiserver.support import PODS, STRATEGIC, Api, pod

Document = dict[str, Any]

SMALL = {"requests": {"cpu": "1", "memory": "64Mi"}, "limits": {"memory": "128Mi"}}
RESIZE = f"{PODS}/p/resize"


def sized(**resources: Document) -> Document:
    """Return a strategic merge patch, as ``kubectl patch --subresource resize`` sends it."""
    return {"spec": {"containers": [{"name": "main", "resources": resources}]}}


async def created(api: Api, **container: Any) -> Document:
    main = {"name": "main", "image": "busybox:1", "resources": SMALL, **container}
    document = pod("p") | {"spec": {"containers": [main]}}
    return (await api.post(PODS, document)).ok(201)


async def resize(api: Api, patch: Document, **query: str) -> Any:
    return await api.patch(RESIZE, patch, STRATEGIC, **query)


async def test_resources_change_and_nothing_else(api: Api) -> None:
    before = await created(api)
    patch = sized(requests={"cpu": "2"}, limits={"memory": "256Mi"})
    patch["metadata"] = {"labels": {"a": "b"}}
    patch["spec"]["activeDeadlineSeconds"] = 5
    patch["spec"]["containers"][0]["image"] = "other"
    found = (await resize(api, patch)).ok()
    (container,) = found["spec"]["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "2", "memory": "64Mi"},
        "limits": {"memory": "256Mi"},
    }
    assert found["metadata"]["generation"] == before["metadata"]["generation"] + 1
    unchanged = {**before["spec"], "containers": [before["spec"]["containers"][0]]}
    container["resources"] = SMALL
    assert found["spec"] == unchanged
    assert "labels" not in found["metadata"]
    assert (await api.get(RESIZE)).ok()["metadata"] == found["metadata"]
    direct = await api.patch(f"{PODS}/p", sized(requests={"cpu": "3"}), STRATEGIC)
    assert "pod updates may not change fields" in direct.refused(422)["message"]


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (sized(requests={"memory": "256Mi"}), "must be less than or equal to memory limit"),
        (sized(limits={"memory": None}), "resource limits cannot be removed"),
        (sized(requests={"nvidia.com/gpu": "1"}, limits={"nvidia.com/gpu": "1"}),
         "only cpu and memory resources are mutable"),
        (sized(requests={"cpu": "1", "memory": "1Gi"}, limits={"cpu": "1", "memory": "1Gi"}),
         "Pod QOS Class may not change as a result of resizing"),
        ({"spec": {"containers": [{"name": "second", "image": "x"}]}},
         "containers may not be added or removed on resize"),
        ({"spec": {"$setElementOrder/containers": [{"name": "main"}],
                   "containers": [{"name": "main", "resizePolicy": [
                       {"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}]}},
         "only cpu and memory resources are mutable"),
    ],
)  # fmt: skip
async def test_what_a_resize_refuses(api: Api, patch: Document, message: str) -> None:
    before = await created(api)
    refused = (await resize(api, patch)).refused(422)
    assert message in refused["message"]
    assert (await api.get(f"{PODS}/p")).ok() == before


async def test_a_node_that_reports_no_resources_cannot_resize(api: Api) -> None:
    await created(api)
    statuses = [{"name": "main", "image": "x", "imageID": "", "ready": True, "restartCount": 0,
                 "state": {"running": {}}}]  # fmt: skip
    status = {"status": {"containerStatuses": statuses}}
    (await api.patch(f"{PODS}/p/status", status)).ok()
    refused = (await resize(api, sized(requests={"cpu": "2"}))).refused(422)
    assert "Pod running on node without support for resize" in refused["message"]


async def test_limit_ranges_and_quotas_hold_for_resized_pods(api: Api) -> None:
    namespace = "/api/v1/namespaces/default"
    item = {"type": "Container", "max": {"cpu": "4"}, "default": {"cpu": "1"}}
    limits = {"metadata": {"name": "l"}, "spec": {"limits": [item]}}
    main = {"requests": {"cpu": "1"}, "limits": {"cpu": "3"}}
    await created(api, resources=main)
    (await api.post(f"{namespace}/limitranges", limits)).ok(201)
    refused = (await resize(api, sized(limits={"cpu": "5"}))).refused(403)
    assert "maximum cpu usage per Container is 4, but limit is 5" in refused["message"]
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": "2"}}}
    (await api.post(f"{namespace}/resourcequotas", quota)).ok(201)
    status = {"status": {"hard": {"requests.cpu": "2"}, "used": {"requests.cpu": "1"}}}
    (await api.patch(f"{namespace}/resourcequotas/q/status", status)).ok()
    refused = (await resize(api, sized(requests={"cpu": "3"}))).refused(403)
    assert (
        "exceeded quota: q, requested: requests.cpu=2, used: requests.cpu=1" in refused["message"]
    )
    (await resize(api, sized(requests={"cpu": "2"}), dryRun="All")).ok()
    (await resize(api, sized(requests={"cpu": "1500m"}))).ok()
    used = (await api.get(f"{namespace}/resourcequotas/q")).ok()["status"]["used"]
    assert used == {"requests.cpu": "1500m"}


@pytest.mark.parametrize(
    ("policies", "message"),
    [
        ([("disk", "NotRequired")], 'Unsupported value: "disk"'),
        ([("cpu", "Sometimes")], 'Unsupported value: "Sometimes"'),
        ([("cpu", "NotRequired"), ("cpu", "NotRequired")], "Duplicate"),
        (
            [("cpu", "RestartContainer")],
            "must be 'NotRequired' when pod `restartPolicy` is 'Never'",
        ),
    ],
)
async def test_rules_of_the_policy(api: Api, policies: list[tuple[str, str]], message: str) -> None:
    listed = [{"resourceName": name, "restartPolicy": policy} for name, policy in policies]
    main = {"name": "main", "image": "busybox:1", "resizePolicy": listed}
    document = pod("p") | {"spec": {"containers": [main], "restartPolicy": "Never"}}
    assert message in (await api.post(PODS, document)).refused(422)["message"]
