"""The OpenAPI v2 document."""

import json
import struct
from typing import Any

import pytest

from local.apiserver.support import DEFINITIONS, Api, definition

SWAGGER = "/openapi/v2"


async def definitions(api: Api) -> dict[str, Any]:
    document = (await api.get(SWAGGER)).ok()
    assert document["swagger"] == "2.0"
    found: dict[str, Any] = document["definitions"]
    return found


async def test_every_reference_can_be_resolved(api: Api) -> None:
    found = await definitions(api)

    def targets(schema: Any) -> set[str]:
        if isinstance(schema, list):
            return set().union(*map(targets, schema)) if schema else set()
        if not isinstance(schema, dict):
            return set()
        inner = set().union(*map(targets, schema.values())) if schema else set()
        target = schema.get("$ref")
        return inner | {target} if isinstance(target, str) else inner

    wanted = targets(found)
    assert wanted
    assert wanted <= {f"#/definitions/{name}" for name in found}
    pod = found["io.k8s.api.core.v1.Pod"]
    assert pod["properties"]["spec"]["$ref"] == "#/definitions/io.k8s.api.core.v1.PodSpec"
    assert pod["properties"]["spec"]["description"].startswith("Specification")


async def test_custom_kinds_are_added_and_removed(api: Api) -> None:
    body = definition()
    schema = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"] |= {
        "maybe": {"type": "string", "nullable": True},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    }
    (await api.post(DEFINITIONS, body)).ok(201)
    fields = (await definitions(api))["com.example.v1.Widget"]["properties"]["spec"]["properties"]
    # With a type kubectl would reject null values and unknown fields.
    assert fields["maybe"] == {}
    assert fields["any"] == {"x-kubernetes-preserve-unknown-fields": True}

    (await api.delete(f"{DEFINITIONS}/widgets.example.com")).ok()
    assert "com.example.v1.Widget" not in await definitions(api)


async def test_a_client_with_the_current_document_gets_not_modified(api: Api) -> None:
    headers = (await api.get(SWAGGER)).headers
    (tag,) = (value for key, value in headers.items() if key.lower() == "etag")
    again = await api.request("GET", SWAGGER, headers={"If-None-Match": tag})

    assert (again.code, again.body) == (304, b"")


async def test_operations_have_their_kind_and_parameters(api: Api) -> None:
    paths = (await api.get(SWAGGER)).ok()["paths"]
    patch = paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert "application/strategic-merge-patch+json" in patch["consumes"]
    assert patch["x-kubernetes-group-version-kind"]["kind"] == "Deployment"
    assert "fieldValidation" in {each["name"] for each in patch["parameters"]}


Message = dict[int, list[bytes | int]]


def message(data: bytes | int) -> Message:
    """The fields of a protobuf message by their numbers; nested messages stay bytes."""
    assert isinstance(data, bytes)
    fields: Message = {}
    position = 0

    def varint() -> int:
        nonlocal position
        value = shift = 0
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while position < len(data):
        number, wire_type = divmod(varint(), 8)
        value: bytes | int
        if wire_type == 0:
            value = varint()
        else:
            length = {1: 8, 2: 0}[wire_type] or varint()
            value = data[position : position + length]
            position += length
        fields.setdefault(number, []).append(value)
    return fields


def entries(data: bytes | int, number: int = 1) -> dict[bytes | int, bytes | int]:
    """The entries of a map, each with a name (1) and a value (2)."""
    pairs = [message(each) for each in message(data).get(number, [])]
    return {pair[1][0]: pair[2][0] for pair in pairs}


async def protobuf(api: Api, accept: str) -> Message:
    answer = await api.request("GET", SWAGGER, headers={"Accept": accept})
    assert answer.code == 200
    headers = {key.lower(): value for key, value in answer.headers.items()}
    # The name that clients request is not a valid media type.
    kind = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
    assert headers["content-type"] == kind
    return message(answer.body)


async def test_kubectl_gets_the_document_as_protobuf(api: Api) -> None:
    """Field numbers are those of gnostic's OpenAPIv2.proto."""
    body = definition()
    schema = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"] |= {
        "ratio": {"type": "number", "minimum": -0.5, "default": 0.25},
        "size": {"type": "integer", "maximum": 300},
        "mode": {"type": "string", "enum": ["fast", "slow"], "maxLength": 300},
        "flags": {"type": "object", "additionalProperties": {"type": "string"}},
        "tags": {"type": "array", "items": {"type": "string"}},
    }
    (await api.post(DEFINITIONS, body)).ok(201)

    accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    document = await protobuf(api, accept)
    assert document[1] == [b"2.0"]
    found = entries(document[9][0])
    widget = message(found[b"com.example.v1.Widget"])
    extensions = entries(found[b"com.example.v1.Widget"], 31)
    kinds = json.loads(bytes(message(extensions[b"x-kubernetes-group-version-kind"])[2][0]))
    assert kinds == [{"group": "example.com", "kind": "Widget", "version": "v1"}]
    spec = entries(widget[25][0])[b"spec"]
    fields = {name: message(value) for name, value in entries(message(spec)[25][0]).items()}
    assert struct.unpack("<d", bytes(fields[b"ratio"][9][0])) == (-0.5,)
    assert message(fields[b"ratio"][5][0])[2] == [b"0.25\n"]
    assert struct.unpack("<d", bytes(fields[b"size"][7][0])) == (300.0,)
    assert [message(each)[2] for each in fields[b"mode"][20]] == [[b'"fast"\n'], [b'"slow"\n']]
    assert fields[b"mode"][11] == [300]
    assert message(fields[b"mode"][22][0]) == {1: [b"string"]}
    inner = message(message(fields[b"flags"][21][0])[1][0])
    assert message(inner[22][0]) == {1: [b"string"]}
    inner = message(message(fields[b"tags"][23][0])[1][0])
    assert message(inner[22][0]) == {1: [b"string"]}
    pod = entries(message(found[b"io.k8s.api.core.v1.Pod"])[25][0])
    assert message(pod[b"spec"])[1] == [b"#/definitions/io.k8s.api.core.v1.PodSpec"]
    path = b"/api/v1/namespaces/{namespace}/pods/{name}"
    patch = message(message(entries(document[8][0], 2)[path])[8][0])
    assert b"application/merge-patch+json" in patch[7]


@pytest.mark.parametrize(
    "accept",
    [
        "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
        "application/com.github.proto-openapi.spec.v2@v1.0+protobuf, application/json",
        "text/html, application/com.github.proto-openapi.spec.v2@v1.0+protobuf;q=0.5",
    ],
)
async def test_both_media_types_of_the_protobuf_form_are_accepted(api: Api, accept: str) -> None:
    assert (await protobuf(api, accept))[1] == [b"2.0"]


async def test_other_media_types_are_not_acceptable(api: Api) -> None:
    (await api.request("GET", SWAGGER, headers={"Accept": "text/html"})).refused(406)
    (await api.request("GET", SWAGGER, headers={"Accept": "*/*"})).ok()
