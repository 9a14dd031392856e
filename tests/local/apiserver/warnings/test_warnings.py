"""Warnings, revisions and errors as upstream's, in several requests; single ones are recorded."""

from typing import Any

from local.apiserver.support import APPLY, DEFINITIONS, JSON_PATCH, WIDGETS, Api, definition, pod

CORE = "/api/v1/namespaces/default"
APPS = "/apis/apps/v1/namespaces/default"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
LABELS = {"app": "x"}


def deployment(**spec: Any) -> dict[str, Any]:
    main = {"name": "main", "image": "busybox:1"}
    template: dict[str, Any] = {
        "metadata": {"labels": LABELS},
        "spec": {"containers": [main | spec.pop("main", {})]},
    }
    template["spec"] |= spec
    return {
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": LABELS}, "template": template},
    }


SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
HERE = "spec.template.spec"


async def test_warnings_about_a_template_come_with_its_changes_only(api: Api) -> None:
    body = deployment(topologySpreadConstraints=[SPREAD])
    assert (await api.post(f"{APPS}/deployments", body)).warnings
    path = f"{APPS}/deployments/d"
    assert not (await api.patch(path, {"metadata": {"labels": {"a": "b"}}})).warnings
    assert (await api.patch(path, {"spec": {"paused": True}})).warnings


async def test_a_repeated_owner_reference(api: Api) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}
    body = {"metadata": {"name": "m", "ownerReferences": [owner, owner]}}
    answer = await api.post(f"{CORE}/configmaps", body)
    assert answer.ok(201)["metadata"]["ownerReferences"] == [owner]
    assert answer.warnings == [
        (
            '299 - ".metadata.ownerReferences contains duplicate entries; API server dedups owner '
            "references in 1.20+, and may reject such requests as early as 1.24; please fix your "
            'requests; duplicate UID(s) observed: u"'
        )
    ]


async def test_a_new_claim_is_stored_again_by_the_next_write_only(api: Api) -> None:
    """Upstream stores it without its phase first."""
    body = {"metadata": {"name": "c"}, "spec": CLAIM}
    path = f"{CORE}/persistentvolumeclaims"
    created = (await api.post(path, body)).ok(201)
    first, second = [(await api.patch(f"{path}/c", {})).ok() for _ in range(2)]
    revisions = [each["metadata"].pop("resourceVersion") for each in (created, first, second)]
    assert created == first == second
    assert revisions[0] != revisions[1] == revisions[2]


async def test_empty_labels_of_a_custom_object_are_stored_but_not_returned(api: Api) -> None:
    (await api.post(DEFINITIONS, definition())).ok(201)
    kind = {"apiVersion": "example.com/v1", "kind": "Widget"}
    config = kind | {"metadata": {"name": "w", "labels": {}}, "spec": {"size": 1}}
    path, who = f"{WIDGETS}/w", {"fieldManager": "me"}
    applied = [(await api.patch(path, config, APPLY, **who)).ok() for _ in range(2)]
    assert "labels" not in applied[0]["metadata"]
    touched = [(await api.patch(path, {})).ok() for _ in range(2)]
    writes = [*applied, *touched]
    revisions = [each["metadata"].pop("resourceVersion") for each in writes]
    assert writes.count(writes[0]) == len(writes)
    assert len(set(revisions)) == 3
    assert revisions[-1] == revisions[-2]


async def test_rules_are_evaluated_despite_a_missing_field(api: Api) -> None:
    body = pod("p", containers=[{"image": "busybox:1", "volumeMounts": [{"mountPath": "/m"}]}])
    refusal = (await api.post(f"{CORE}/pods", body)).refused(422, "Invalid")
    assert [(each["field"], each["message"]) for each in refusal["details"]["causes"]] == [
        ("spec.containers[0].name", "Required value"),
        ("spec.containers[0].volumeMounts[0].name", "Required value"),
        ("spec.containers[0].volumeMounts[0].name", 'Not found: ""'),
    ]


async def test_the_claim_of_an_ephemeral_volume_needs_an_access_mode(api: Api) -> None:
    claim = {"spec": {"resources": {"requests": {"storage": "1Gi"}}}}
    volume = {"name": "v", "ephemeral": {"volumeClaimTemplate": claim}}
    refusal = (await api.post(f"{APPS}/deployments", deployment(volumes=[volume]))).refused(422)
    assert refusal["message"] == (
        f'Deployment.apps "d" is invalid: {HERE}.volumes[0].ephemeral.volumeClaimTemplate.spec.'
        "accessModes: Required value: at least 1 access mode is required"
    )


async def test_a_refused_change_of_a_job_shows_upstreams_struct(api: Api) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "m", "image": "i:1"}]}}
    body = {"metadata": {"name": "j"}, "spec": {"template": template}}
    (await api.post(JOBS, body)).ok(201)
    change = {"spec": {"template": {"spec": {"hostNetwork": True}}}}
    refusal = (await api.patch(f"{JOBS}/j", change)).refused(422)
    (cause,) = refusal["details"]["causes"]
    assert cause["field"] == "spec.template"
    assert (
        '"Spec":{"Volumes":null,"InitContainers":null,"Containers":[{"Name":"m","Image"'
        in (cause["message"])
    )
    assert '"SecurityContext":{"HostNetwork":true,"HostPID":false' in cause["message"]


async def test_resources_of_a_suspended_job_may_change(api: Api) -> None:
    main = {"name": "m", "image": "i:1", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [main]}}
    body = {"metadata": {"name": "j"}, "spec": {"suspend": True, "template": template}}
    (await api.post(JOBS, body)).ok(201)
    change = [
        {
            "op": "replace",
            "path": "/spec/template/spec/containers/0/resources/requests/cpu",
            "value": "2",
        }
    ]
    (await api.patch(f"{JOBS}/j", change, JSON_PATCH)).ok()
    other = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "i:2"}]
    refusal = (await api.patch(f"{JOBS}/j", other, JSON_PATCH)).refused(422)
    assert refusal["details"]["causes"][0]["field"] == "spec.template.spec"


async def test_an_item_without_its_key_ends_field_tracking(api: Api) -> None:
    path = f"{CORE}/serviceaccounts"
    body = {"metadata": {"name": "a"}, "secrets": [{"name": "s"}]}
    assert "managedFields" in (await api.post(path, body)).ok(201)["metadata"]
    change = [{"op": "remove", "path": "/secrets/0/name"}]
    changed = (await api.patch(f"{path}/a", change, JSON_PATCH)).ok()
    assert "managedFields" not in changed["metadata"]
    config = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}}
    refusal = await api.patch(f"{path}/a", config, APPLY, fieldManager="me")
    assert refusal.refused(500)["message"] == (
        "failed to create manager for existing fields: failed to convert new object (default/a; "
        "/v1, Kind=ServiceAccount) to smd typed: .secrets: element 0: associative list with keys "
        'has an element that omits all key fields ["name"] (and doesn\'t have default values for '
        "any key fields)"
    )
