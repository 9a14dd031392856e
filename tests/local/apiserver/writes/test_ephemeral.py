"""The `ephemeralcontainers` subresource of pods: what `kubectl debug` writes."""

from typing import Any

import pytest

from local.apiserver.support import APPLY, JSON_PATCH, MERGE, PODS, STRATEGIC, Api, pod

DEBUGGER = {"name": "debugger", "image": "busybox:1", "stdin": True, "tty": True}
PATH = f"{PODS}/p/ephemeralcontainers"
FIELD = "spec.ephemeralContainers"
REFUSED = "Forbidden: cannot be set for an Ephemeral Container"


def adding(**more: Any) -> dict[str, Any]:
    return {"spec": {"ephemeralContainers": [DEBUGGER | more]}}


async def test_kubectl_debug_adds_a_container_by_strategic_merge_patch(api: Api) -> None:
    created = (await api.post(PODS, pod("p"))).ok(201)
    patched = (await api.patch(PATH, adding(targetContainerName="main"), STRATEGIC)).ok(200)
    (container,) = patched["spec"]["ephemeralContainers"]
    assert container == {
        **DEBUGGER,
        "targetContainerName": "main",
        "imagePullPolicy": "IfNotPresent",
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    assert patched["metadata"]["generation"] == created["metadata"]["generation"] + 1
    (await api.patch(PATH, adding(name="second"), STRATEGIC)).ok(200)
    read = (await api.get(PATH)).ok()
    assert {each["name"] for each in read["spec"]["ephemeralContainers"]} == {"debugger", "second"}
    assert read == (await api.get(f"{PODS}/p")).ok()
    assert read["metadata"]["generation"] == created["metadata"]["generation"] + 2
    assert read["status"]["phase"] == "Pending"


@pytest.mark.parametrize("way", ["put", "merge", "json", "apply"])
async def test_other_ways_to_add_a_container(api: Api, way: str) -> None:
    (await api.post(PODS, pod("p"))).ok(201)
    whole = (await api.get(PATH)).ok()
    whole["spec"]["ephemeralContainers"] = [DEBUGGER]
    if way == "put":
        (await api.put(PATH, whole)).ok(200)
    elif way == "merge":
        (await api.patch(PATH, adding(), MERGE)).ok(200)
    elif way == "json":
        change = {"op": "add", "path": "/spec/ephemeralContainers", "value": [DEBUGGER]}
        (await api.patch(PATH, [change], JSON_PATCH)).ok(200)
    else:
        config = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, **adding()}
        (await api.patch(PATH, config, APPLY, fieldManager="me")).ok(200)
    (container,) = (await api.get(f"{PODS}/p")).ok()["spec"]["ephemeralContainers"]
    assert container["name"] == "debugger"


async def test_the_fields_are_owned_by_their_manager(api: Api) -> None:
    (await api.post(PODS, pod("p"))).ok(201)
    patched = (await api.patch(PATH, adding(), STRATEGIC, fieldManager="kubectl-debug")).ok()
    entry = patched["metadata"]["managedFields"][-1]
    assert (entry["manager"], entry["operation"]) == ("kubectl-debug", "Update")
    assert entry["subresource"] == "ephemeralcontainers"
    owned = entry["fieldsV1"]["f:spec"]
    assert list(owned) == ["f:ephemeralContainers"]
    assert 'k:{"name":"debugger"}' in owned["f:ephemeralContainers"]


async def test_only_ephemeral_containers_change(api: Api) -> None:
    before = (await api.post(PODS, pod("p"))).ok(201)
    body = adding() | {
        "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
        "status": {"phase": "Failed"},
    }
    body["spec"] |= {"activeDeadlineSeconds": 5, "hostNetwork": True}
    (await api.patch(PATH, body, STRATEGIC)).ok()
    after = (await api.get(f"{PODS}/p")).ok()
    assert after["spec"].pop("ephemeralContainers")
    assert after["spec"] == before["spec"]
    assert after["status"] == before["status"]
    for key in ("labels", "annotations"):
        assert after["metadata"].get(key) == before["metadata"].get(key)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {"targetContainerName": "nothing"},
            f'{FIELD}[0].targetContainerName: Not found: "nothing"',
        ),
        ({"name": "main"}, f'{FIELD}[0].name: Duplicate value: "main"'),
        ({"name": "a/b"}, None),
        ({"image": ""}, f"{FIELD}[0].image: Required value"),
        *(
            (
                more,
                f"{FIELD}[0].{next(iter(more))}: {REFUSED}",
            )
            for more in (
                {"ports": [{"containerPort": 80}]},
                {"resources": {"limits": {"cpu": "1"}}},
                {"lifecycle": {"preStop": {"exec": {"command": ["true"]}}}},
                {"livenessProbe": {"exec": {"command": ["true"]}}},
                {"readinessProbe": {"exec": {"command": ["true"]}}},
                {"startupProbe": {"exec": {"command": ["true"]}}},
            )
        ),
        (
            {"volumeMounts": [{"name": "data", "mountPath": "/d", "subPath": "x"}]},
            f"{FIELD}[0].volumeMounts[0].subPath: {REFUSED}",
        ),
    ],
)
async def test_invalid_ephemeral_containers_are_rejected(
    api: Api, more: dict[str, Any], message: str | None
) -> None:
    document = pod("p")
    document["spec"]["volumes"] = [{"name": "data", "emptyDir": {}}]
    (await api.post(PODS, document)).ok(201)
    answer = await api.patch(PATH, adding(**more), STRATEGIC)
    text = None if message is None else f'Pod "p" is invalid: {message}'
    answer.refused(422, "Invalid", text)
    assert "ephemeralContainers" not in (await api.get(f"{PODS}/p")).ok()["spec"]


async def test_existing_ephemeral_containers_are_immutable(api: Api) -> None:
    (await api.post(PODS, pod("p"))).ok(201)
    whole = (await api.patch(PATH, adding(), STRATEGIC)).ok()
    changed = await api.patch(PATH, adding(image="busybox:2"), STRATEGIC)
    text = changed.refused(422, "Invalid")["message"]
    start = 'existing ephemeral containers "debugger" may not be changed\n'
    assert text.startswith(f'Pod "p" is invalid: {FIELD}: Forbidden: {start}')
    assert '-  "Image": "busybox:1"' in text.replace('- "', '-  "')
    del whole["spec"]["ephemeralContainers"]
    removed = await api.put(PATH, whole)
    removed.refused(
        422,
        "Invalid",
        f'Pod "p" is invalid: {FIELD}: Forbidden: existing ephemeral containers "debugger" may '
        "not be removed\n",
    )


async def test_ephemeral_containers_need_the_subresource(api: Api) -> None:
    document = pod("p")
    document["spec"] |= adding()["spec"]
    text = f'Pod "p" is invalid: {FIELD}: Forbidden: cannot be set on create'
    (await api.post(PODS, document)).refused(422, "Invalid", text)
    (await api.post(PODS, pod("p"))).ok(201)
    answer = await api.patch(f"{PODS}/p", adding(), STRATEGIC)
    assert "pod updates may not change fields other than" in answer.refused(422)["message"]


async def test_discovery_errors_and_dry_run_of_the_subresource(api: Api) -> None:
    (await api.patch(PATH, adding(), STRATEGIC)).refused(404, "NotFound", 'pods "p" not found')
    listed = (await api.get("/api/v1")).ok()["resources"]
    assert {
        "name": "pods/ephemeralcontainers",
        "singularName": "",
        "namespaced": True,
        "kind": "Pod",
        "verbs": ["get", "patch", "update"],
    } in listed
    (await api.post(PODS, pod("p"))).ok(201)
    dry = (await api.patch(PATH, adding(), STRATEGIC, dryRun="All")).ok()
    assert dry["spec"]["ephemeralContainers"]
    assert "ephemeralContainers" not in (await api.get(f"{PODS}/p")).ok()["spec"]
    (await api.delete(PATH)).refused(405)
