"""The older of the two schema documents."""

from typing import Any

from local.apiserver_support import DEFINITIONS, Api, definition

SWAGGER = "/openapi/v2"


async def definitions(api: Api) -> dict[str, Any]:
    document = (await api.get(SWAGGER)).ok()
    assert document["swagger"] == "2.0"
    found: dict[str, Any] = document["definitions"]
    return found


async def test_every_reference_leads_somewhere(api: Api) -> None:
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


async def test_custom_kinds_come_and_go(api: Api) -> None:
    body = definition()
    schema = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"] |= {
        "maybe": {"type": "string", "nullable": True},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    }
    (await api.post(DEFINITIONS, body)).ok(201)
    fields = (await definitions(api))["com.example.v1.Widget"]["properties"]["spec"]["properties"]
    # kubectl would hold a type against what is null or unknown.
    assert fields["maybe"] == {}
    assert fields["any"] == {"x-kubernetes-preserve-unknown-fields": True}

    (await api.delete(f"{DEFINITIONS}/widgets.example.com")).ok()
    assert "com.example.v1.Widget" not in await definitions(api)


async def test_a_client_that_has_it_does_not_get_it_again(api: Api) -> None:
    headers = (await api.get(SWAGGER)).headers
    (tag,) = (value for key, value in headers.items() if key.lower() == "etag")
    again = await api.request("GET", SWAGGER, headers={"If-None-Match": tag})

    assert (again.code, again.body) == (304, b"")


async def test_the_protobuf_form_is_not_there(api: Api) -> None:
    accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    (await api.request("GET", SWAGGER, headers={"Accept": accept})).refused(406)
