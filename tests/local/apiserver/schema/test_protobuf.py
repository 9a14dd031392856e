"""Protobuf bodies, as kubectl sends them."""

import base64
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traincrew.local.apiserver.schema.protobuf import ProtobufError, decode

# Captured from kubectl 1.37: command -> body.
BODIES = {
    command: base64.b64decode(body)
    for command, body in json.loads(
        Path(__file__).with_name("data").joinpath("kubectl-protobuf.json").read_text()
    ).items()
}


def varint(value: int) -> bytes:
    result = bytearray()
    value &= 2**64 - 1
    while value >= 0x80:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*result, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def data(field: int, value: bytes | str) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(raw)) + raw


def message(api_version: str, kind: str, raw: bytes) -> bytes:
    return b"k8s\0" + data(1, data(1, api_version) + data(2, kind)) + data(2, raw)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (
            "create cm a --from-literal=a=b --from-literal=c=d",
            {
                "kind": "ConfigMap",
                "apiVersion": "v1",
                "metadata": {"name": "a"},
                "data": {"a": "b", "c": "d"},
            },
        ),
        (
            "create secret generic s --from-literal=a=b",
            {
                "kind": "Secret",
                "apiVersion": "v1",
                "metadata": {"name": "s"},
                "data": {"a": "Yg=="},
            },
        ),
        (
            "create job j --image=busybox -- echo hi",
            {
                "kind": "Job",
                "apiVersion": "batch/v1",
                "metadata": {"name": "j"},
                "spec": {
                    "template": {
                        "metadata": {},
                        "spec": {
                            "containers": [
                                {
                                    "name": "j",
                                    "image": "busybox",
                                    "command": ["echo", "hi"],
                                    "resources": {},
                                }
                            ],
                            "restartPolicy": "Never",
                        },
                    }
                },
                "status": {},
            },
        ),
        (
            "create service clusterip s --tcp=80:8080",
            {
                "kind": "Service",
                "apiVersion": "v1",
                "metadata": {"name": "s", "labels": {"app": "s"}},
                "spec": {
                    "ports": [
                        {"name": "80-8080", "protocol": "TCP", "port": 80, "targetPort": 8080}
                    ],
                    "selector": {"app": "s"},
                    "type": "ClusterIP",
                },
                "status": {"loadBalancer": {}},
            },
        ),
        (
            "create pdb p --selector=a=b --min-available=50%",
            {
                "kind": "PodDisruptionBudget",
                "apiVersion": "policy/v1",
                "metadata": {"name": "p"},
                "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"a": "b"}}},
                "status": {
                    "disruptionsAllowed": 0,
                    "currentHealthy": 0,
                    "desiredHealthy": 0,
                    "expectedPods": 0,
                },
            },
        ),
        (
            "create quota q --hard=cpu=1,pods=2",
            {
                "kind": "ResourceQuota",
                "apiVersion": "v1",
                "metadata": {"name": "q"},
                "spec": {"hard": {"cpu": "1", "pods": "2"}},
                "status": {},
            },
        ),
    ],
)
def test_what_kubectl_sends(command: str, expected: dict[str, Any]) -> None:
    assert decode(BODIES[command]) == expected


@pytest.mark.parametrize("command", sorted(BODIES))
def test_every_generator_of_kubectl_is_understood(command: str) -> None:
    from traincrew.local.apiserver import schema

    document = decode(BODIES[command])
    group, _, version = document["apiVersion"].rpartition("/")
    known = schema.load_builtin(group, version, document["kind"])
    assert known.prune(document) == []
    faults = known.validate(document)
    assert [fault for fault in faults if fault.reason == "FieldValueTypeInvalid"] == []


def test_values_with_a_json_form_of_their_own() -> None:
    moment = number(1, 1_800_000_000) + number(2, 123_456_000)
    lease = data(1, data(1, "l")) + data(2, data(1, "me") + data(4, moment) + number(5, -3))
    assert decode(message("coordination.k8s.io/v1", "Lease", lease)) == {
        "kind": "Lease",
        "apiVersion": "coordination.k8s.io/v1",
        "metadata": {"name": "l"},
        "spec": {
            "holderIdentity": "me",
            "renewTime": "2027-01-15T08:00:00.123456Z",
            "leaseTransitions": -3,
        },
    }
    go_zero = number(1, -62135596800)
    event = data(1, data(1, "e") + data(8, go_zero)) + data(6, number(1, 0))
    decoded = decode(message("v1", "Event", event))
    assert decoded["metadata"] == {"name": "e"}
    assert decoded["firstTimestamp"] == "1970-01-01T00:00:00Z"
    ancient = data(1, data(1, "e") + data(8, number(1, -62135596798)))
    decoded = decode(message("v1", "Event", ancient))
    assert decoded["metadata"]["creationTimestamp"] == "0001-01-01T00:00:02Z"


@pytest.mark.parametrize(
    ("api_version", "kind", "field"),
    [
        ("certificates.k8s.io/v1", "CertificateSigningRequest", 6),
        ("authorization.k8s.io/v1", "SubjectAccessReview", 5),
    ],
)
def test_extra_values_of_users_are_lists(api_version: str, kind: str, field: int) -> None:
    entry = data(1, "example.com/id") + data(2, data(1, "a") + data(1, "b"))
    spec = data(2, data(field, entry))
    assert decode(message(api_version, kind, spec))["spec"]["extra"] == {
        "example.com/id": ["a", "b"]
    }


def test_inlined_structs_and_volumes() -> None:
    volume = data(1, "v") + data(2, data(2, data(1, "Memory")))
    pod = data(1, data(1, "p")) + data(2, data(1, volume) + data(2, data(1, "a")))
    assert decode(message("v1", "Pod", pod))["spec"] == {
        "volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}],
        "containers": [{"name": "a"}],
    }


def test_delete_options_of_any_group() -> None:
    options = number(1, 0) + data(4, "Background")
    assert decode(message("batch/v1", "DeleteOptions", options)) == {
        "kind": "DeleteOptions",
        "apiVersion": "batch/v1",
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Background",
    }


def test_schemas_inside_definitions() -> None:
    inner = data(5, "string")
    properties = data(29, data(1, "a") + data(2, inner)) + data(5, "object")
    version = data(1, "v1") + data(4, data(1, properties))
    body = data(1, data(1, "x")) + data(2, data(1, "t.io") + data(7, version))
    decoded = decode(message("apiextensions.k8s.io/v1", "CustomResourceDefinition", body))
    schema = decoded["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema == {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"{}", "provided data does not appear to be a protobuf message"),
        (b"k8s\0", 'no kind "" is registered for version ""'),
        (message("v1", "Nothing", b""), 'no kind "Nothing" is registered for version "v1"'),
        (message("v1", "ConfigMap", b"\x0a\x7f"), "unexpected end of message"),
        (message("v1", "ConfigMap", b"\x0b"), "illegal wire type 3"),
        (message("v1", "ConfigMap", b"\xff" * 12), "integer overflow"),
        (message("v1", "ConfigMap", number(1, 1)), "wrong wire type"),
        (message("v1", "ConfigMap", data(1, data(1, b"\xff"))), "a string is not UTF-8"),
        (
            message("v1", "Pod", data(1, data(17, data(7, data(1, b"{"))))),
            "a raw value is not JSON",
        ),
    ],
)
def test_malformed_messages(body: bytes, text: str) -> None:
    with pytest.raises(ProtobufError, match=text):
        decode(body)


def test_nesting_depth_is_limited() -> None:
    inner = b""
    for _ in range(200):
        inner = data(29, data(1, "a") + data(2, inner))
    version = data(1, "v1") + data(4, data(1, inner))
    body = data(2, data(7, version))
    with pytest.raises(ProtobufError, match="nested too deeply"):
        decode(message("apiextensions.k8s.io/v1", "CustomResourceDefinition", body))


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(BODIES)), st.integers(4, 400), st.integers(0, 255))
def test_a_flipped_byte_never_crashes(command: str, position: int, value: int) -> None:
    body = bytearray(BODIES[command])
    body[position % len(body)] = value
    with contextlib.suppress(ProtobufError):
        assert isinstance(decode(bytes(body)), dict)
