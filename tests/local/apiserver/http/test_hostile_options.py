"""Options, headers and encodings that no client should send: refused, never an internal error."""

import asyncio
import json
from typing import Any

import pytest

from local.apiserver.support import (
    APPLY,
    AUTHORIZATION,
    DEADLINE,
    DEFINITIONS,
    JSON_PATCH,
    MAPS,
    MERGE,
    PODS,
    WIDGETS,
    Answer,
    Api,
    config_map,
    definition,
    pod,
    widget,
)

HUGE = ["1" + "0" * 30, "1" + "0" * 400, "9" * 5_000, "-" + "9" * 30, "9223372036854775808"]


async def running_pod(api: Api, **spec: Any) -> None:
    (await api.post(PODS, pod("p", **spec))).ok(201)
    binding = {"target": {"kind": "Node", "name": "n"}}
    (await api.post(f"{PODS}/p/binding", binding)).ok(201)


async def raw(api: Api, request: bytes) -> tuple[int, bytes]:
    """Send a request as it is; return the code and the body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", api.server.port)
    try:
        line, _, rest = request.partition(b"\r\n")
        writer.write(
            line + b"\r\nHost: 127.0.0.1\r\nConnection: close\r\n" + AUTHORIZATION.encode() + rest
        )
        async with asyncio.timeout(DEADLINE):
            answer = await reader.read()
    finally:
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


# -- numbers


@pytest.mark.parametrize("seconds", HUGE)
async def test_a_grace_period_has_64_bits(api: Api, seconds: str) -> None:
    await running_pod(api)
    (await api.delete(f"{PODS}/p", gracePeriodSeconds=seconds)).refused(400, "BadRequest")
    body = b'{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":%b}' % seconds.encode()
    (await api.delete(f"{PODS}/p", body)).refused(400, "BadRequest")
    assert "deletionTimestamp" not in (await api.get(f"{PODS}/p")).ok()["metadata"]


async def test_the_longest_grace_period_ends_with_the_last_time(api: Api) -> None:
    await running_pod(api, terminationGracePeriodSeconds=2**62)
    deleted = (await api.delete(f"{PODS}/p")).ok()
    assert deleted["metadata"]["deletionTimestamp"] == "9999-12-31T23:59:59Z"
    assert deleted["metadata"]["deletionGracePeriodSeconds"] == 2**62
    shorter = (await api.delete(f"{PODS}/p", gracePeriodSeconds=str(2**61))).ok()
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 2**61


@pytest.mark.parametrize("number", [*HUGE, "1_0", "٣", "1.5", "x", " 1"])
@pytest.mark.parametrize("name", ["sinceSeconds", "tailLines", "limitBytes"])
async def test_numbers_of_log_options_have_64_bits(api: Api, name: str, number: str) -> None:
    await running_pod(api)
    (await api.get(f"{PODS}/p/log", **{name: number})).refused(400, "BadRequest")


@pytest.mark.parametrize(
    "time",
    ["x", "2027-01-15", "2027-01-15T08:00:00", "2027-13-15T08:00:00Z", "0001-01-01T00:00:00+23:00"],
)
async def test_the_time_of_a_log_is_that_of_rfc_3339(api: Api, time: str) -> None:
    await running_pod(api)
    status = (await api.get(f"{PODS}/p/log", sinceTime=time)).refused(400, "BadRequest")
    assert f'parsing time "{time}"' in status["message"]


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+23:00", "9999-12-31T23:59:59-23:00"])
async def test_times_outside_of_the_calendar_are_refused(api: Api, time: str) -> None:
    lease = {"metadata": {"name": "a"}, "spec": {"renewTime": time[:19] + ".000000" + time[19:]}}
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    (await api.post(leases, lease)).refused(400, "BadRequest")
    stored = (await api.post(MAPS, config_map("a", deletionTimestamp=time))).ok(201)
    assert "deletionTimestamp" not in stored["metadata"]


@pytest.mark.parametrize("number", HUGE)
async def test_the_duration_of_a_watch_has_64_bits(api: Api, number: str) -> None:
    (await api.get(MAPS, watch="true", timeoutSeconds=number)).refused(400, "BadRequest")
    (await api.get(MAPS, limit=number)).refused(400, "BadRequest")
    async with api.watch(MAPS, timeoutSeconds=str(2**63 - 1)) as watching:
        (await api.post(MAPS, config_map("a"))).ok(201)
        assert await watching.names(1) == [("ADDED", "a")]


@pytest.mark.parametrize("number", [*HUGE[:-2], "9223372036854775808", "٣", "1_0"])
@pytest.mark.parametrize("operator", ["<", ">"])
async def test_numbers_of_selectors_have_64_bits(api: Api, operator: str, number: str) -> None:
    (await api.post(MAPS, config_map("a", labels={"n": "5"}))).ok(201)
    status = (await api.get(MAPS, labelSelector=f"n{operator}{number}")).refused(400)
    assert "the value must be an integer" in status["message"]
    found = (await api.get(MAPS, labelSelector="n>4,n<6")).ok()
    assert [item["metadata"]["name"] for item in found["items"]] == ["a"]


# -- YAML


async def yaml(api: Api, text: str) -> Answer:
    body = f"metadata: {{name: a}}\nkind: ConfigMap\napiVersion: v1\n{text}".encode()
    created = await api.post(MAPS, body, content_type="application/yaml")
    query = {"fieldManager": "me", "force": "true"}
    applied = await api.patch(f"{MAPS}/b", body.replace(b"name: a", b"name: b"), APPLY, **query)
    assert created.code // 100 == applied.code // 100, (created.body, applied.body)
    return created


@pytest.mark.parametrize(
    "value",
    [
        "!!binary aGVsbG8=",
        "!!set {a, b}",
        "!!timestamp 2027-01-15",
        "!!omap [a: b]",
        "!!pairs [a: b]",
        "!!python/name:os.system x",
        "!mine x",
        ".nan",
        ".inf",
        "-.inf",
        "1" + "0" * 400,
        "9" * 5_000,
        '"\\ud800"',
        '{"\\udfff": a}',
        "&a [*a]",
        "&a {b: *a}",
    ],
)
async def test_yaml_that_is_no_json_is_refused(api: Api, value: str) -> None:
    (await yaml(api, f"data: {{key: {value}}}")).refused(400, "BadRequest")
    (await yaml(api, f"unknown: {value}")).refused(400, "BadRequest")


async def test_yaml_tags_of_json_types_are_read(api: Api) -> None:
    text = (
        "data: {a: !!str 1, b: !!str yes, c: 2027-01-15, d: '=', e: =}\nimmutable: !!bool 'false'"
    )
    stored = (await yaml(api, text)).ok(201)
    assert stored["data"] == {"a": "1", "b": "yes", "c": "2027-01-15", "d": "=", "e": "="}


@pytest.mark.parametrize("number", ["36893488147419103232", "18446744073709551615"])
async def test_long_numbers_of_yaml_are_those_of_json(api: Api, number: str) -> None:
    (await api.post(DEFINITIONS, definition())).ok(201)
    for name, kind in (("yaml", "application/yaml"), ("json", "application/json")):
        body = json.dumps(widget(name, size=7)).replace("7", number).encode()
        (await api.post(WIDGETS, body, content_type=kind)).ok(201)
    sizes = [(await api.get(f"{WIDGETS}/{name}")).ok()["spec"] for name in ("yaml", "json")]
    assert sizes[0] == sizes[1]


# -- bytes that are no text


async def test_bytes_of_a_user_agent_become_the_name_of_a_manager(api: Api) -> None:
    body = json.dumps(config_map("a")).encode()
    head = b"POST %b HTTP/1.1\r\nContent-Length: %d\r\n" % (MAPS.encode(), len(body))
    agent = b"User-Agent: caf\xc3\xa9\xff\x85" + b"x" * 200 + b"/1.0\r\n\r\n"
    code, answer = await raw(api, head + agent + body)
    assert code == 201, answer
    manager = json.loads(answer)["metadata"]["managedFields"][0]["manager"]
    assert manager.startswith("café\ufffd\ufffdxxx")
    assert 120 < len(manager.encode()) <= 128


@pytest.mark.parametrize("path", [b"/\xff", b"/a?fieldManager=\xff", b"?labelSelector=\xff"])
async def test_bytes_of_a_path_are_no_internal_error(api: Api, path: bytes) -> None:
    code, answer = await raw(api, b"GET " + MAPS.encode() + path + b" HTTP/1.1\r\n\r\n")
    assert 400 <= code < 500, answer


@pytest.mark.parametrize("text", [rb'"\ud800"', b'"\xff"', rb'"\udc00\ud800"'])
async def test_json_that_is_no_text_is_refused(api: Api, text: bytes) -> None:
    body = b'{"metadata":{"name":"a"},"data":{"key":%b}}' % text
    (await api.post(MAPS, body)).refused(400, "BadRequest")


# -- depth


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {"end": 1}
    for _ in range(depth):
        value = {"x": value}
    return value


async def test_deep_definitions_and_their_objects_are_served(api: Api) -> None:
    schema: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    for _ in range(110):
        rule = {"rule": "has(self.x) || true", "message": "m"}
        schema = {"type": "object", "properties": {"x": schema}}
    schema["x-kubernetes-validations"] = [rule]
    document = definition()
    version = document["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"] = schema
    (await api.post(DEFINITIONS, document)).ok(201)
    body = widget("a") | nested(230)
    del body["spec"]
    (await api.post(WIDGETS, body)).ok(201)
    (await api.patch(f"{WIDGETS}/a", {"x": {"y": 1}}, MERGE)).ok()
    applied = body | {"metadata": {"name": "b"}}
    stored = (await api.patch(f"{WIDGETS}/b", applied, APPLY, fieldManager="me")).ok(201)
    (await api.put(f"{WIDGETS}/b", stored | {"y": 1})).ok()
    (await api.get("/openapi/v3/apis/example.com/v1")).ok()
    (await api.get("/openapi/v2")).ok()


async def test_json_patches_do_not_add_up_to_a_deep_object(api: Api) -> None:
    document = definition()
    document["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }
    (await api.post(DEFINITIONS, document)).ok(201)
    (await api.post(WIDGETS, widget("a") | nested(150))).ok(201)
    deeper = [{"op": "add", "path": "/x" * 150 + "/y", "value": nested(150)}]
    (await api.patch(f"{WIDGETS}/a", deeper, JSON_PATCH)).refused(400, "BadRequest")
    (await api.get(f"{WIDGETS}/a")).ok()


# -- JSON inside of texts

DEEP = ["[" * 20_000, "[" * 900 + "]" * 900, '{"a":' * 900 + "1" + "}" * 900, "nonsense"]
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@pytest.mark.parametrize("depth", [400, 900, 100_000])
async def test_a_deep_last_configuration_is_ignored(api: Api, depth: int) -> None:
    deep = '{"a":' * depth + "1" + "}" * depth
    last = f'{{"apiVersion":"v1","kind":"ConfigMap","data":{deep}}}'
    last = last[:250_000]
    (await api.post(MAPS, config_map("a", annotations={LAST_APPLIED: last}))).ok(201)
    change = config_map("a", {"key": "other"})
    answer = await api.patch(f"{MAPS}/a", change, APPLY, fieldManager="kubectl")
    answer.refused(409, "Conflict")


@pytest.mark.parametrize("text", DEEP)
async def test_deep_texts_of_secrets_and_autoscalers_are_refused(api: Api, text: str) -> None:
    secret = {
        "metadata": {"name": "a"},
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": text},
    }
    answer = await api.post("/api/v1/namespaces/default/secrets", secret)
    assert answer.code in {201, 422}, answer.body
    spec = {"scaleTargetRef": {"kind": "Job", "name": "a"}, "maxReplicas": 3}
    names = ("metrics", "behavior", "conditions", "current-metrics")
    annotations = {f"autoscaling.alpha.kubernetes.io/{name}": text for name in names}
    scaler = {"metadata": {"name": "a", "annotations": annotations}, "spec": spec}
    path = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
    answer = await api.post(path, scaler)
    assert answer.code in {201, 400, 422}, answer.body
    if answer.code == 201:
        (await api.get(path.replace("v1", "v2") + "/a")).ok()
        (await api.get(f"{path}/a")).ok()


@pytest.mark.parametrize("text", DEEP)
async def test_deep_patches_of_a_scale_are_refused(api: Api, text: str) -> None:
    (await api.post(DEFINITIONS, definition())).ok(201)
    (await api.post(WIDGETS, widget("a"))).ok(201)
    for kind in (MERGE, JSON_PATCH):
        answer = await api.patch(f"{WIDGETS}/a/scale", text.encode(), kind)
        answer.refused(400, "BadRequest")


@pytest.mark.parametrize(
    "step", ["k:nonsense", "k:[]", "k:1", "v:x", "k:" + "[" * 900, "i:0", "x", "", "f:", "k:{}"]
)
async def test_managed_fields_of_another_form_are_no_internal_error(api: Api, step: str) -> None:
    entry = {
        "manager": "other",
        "operation": "Apply",
        "apiVersion": "v1",
        "time": "2027-01-15T08:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:key": {}, step: {step: {}}}, step: {}, "f:metadata": {step: {}}},
    }
    (await api.post(MAPS, config_map("a", managedFields=[entry]))).ok(201)
    change = config_map("a", {"key": "other"})
    answers = [
        await api.patch(f"{MAPS}/a", change, APPLY, fieldManager="me"),
        await api.patch(f"{MAPS}/a", {"data": {"key": "more"}}, MERGE),
        await api.patch(f"{MAPS}/a", change, APPLY, fieldManager="me", force="true"),
    ]
    for answer in answers:
        assert answer.document.get("reason") != "InternalError", answer.body
