"""Errors of Go's JSON decoder."""

from typing import Any

import pytest

from traincrew.local.apiserver import schema
from traincrew.local.apiserver.schema.decoding import decode_fault
from traincrew.local.apiserver.values.times import fault

FIELD = "json: cannot unmarshal %s into Go struct field %s of type %s"
QUANTITY = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


@pytest.mark.parametrize(
    ("group", "kind", "document", "message"),
    [
        ("apps", "Deployment", {"spec": {"replicas": 3}}, None),
        (
            "apps",
            "Deployment",
            {"spec": {"replicas": "3"}},
            FIELD % ("string", "DeploymentSpec.spec.replicas", "int32"),
        ),
        (
            "apps",
            "Deployment",
            {"spec": {"replicas": 1 << 31}},
            FIELD % ("number 2147483648", "DeploymentSpec.spec.replicas", "int32"),
        ),
        (
            "apps",
            "Deployment",
            {"spec": {"replicas": 1.5}},
            FIELD % ("number 1.5", "DeploymentSpec.spec.replicas", "int32"),
        ),
        (
            "apps",
            "Deployment",
            {"spec": []},
            FIELD % ("array", "Deployment.spec", "v1.DeploymentSpec"),
        ),
        (
            "",
            "Pod",
            {"spec": {"containers": {}}},
            FIELD % ("object", "PodSpec.spec.containers", "[]v1.Container"),
        ),
        (
            "",
            "Pod",
            {"spec": {"containers": [{"command": ["a", True]}]}},
            FIELD % ("bool", "Container.spec.containers.command", "string"),
        ),
        (
            "",
            "Pod",
            {"spec": {"containers": [{"ports": [{"protocol": 6}]}]}},
            FIELD % ("number", "ContainerPort.spec.containers.ports.protocol", "v1.Protocol"),
        ),
        (
            "",
            "Pod",
            {"spec": {"containers": [{"resources": {"limits": "1"}}]}},
            FIELD
            % (
                "string",
                "ResourceRequirements.spec.containers.resources.limits",
                "v1.ResourceList",
            ),
        ),
        ("", "ConfigMap", {"data": {"a": ["b"]}}, FIELD % ("array", "ConfigMap.data", "string")),
        ("", "ConfigMap", {"data": "x"}, FIELD % ("string", "ConfigMap.data", "map[string]string")),
        ("", "ConfigMap", {"binaryData": {"a": "x"}}, "illegal base64 data at input byte 0"),
        ("", "ConfigMap", {"binaryData": {"a": "abc!"}}, "illegal base64 data at input byte 3"),
        (
            "",
            "ConfigMap",
            {"metadata": {"labels": {"a": 1}}},
            FIELD % ("number", "ObjectMeta.metadata.labels", "string"),
        ),
        # The first wrong field in the order they were sent …
        (
            "",
            "ConfigMap",
            {"immutable": "yes", "data": 3},
            FIELD % ("string", "ConfigMap.immutable", "bool"),
        ),
        # … but types with their own decoder stop it at once.
        (
            "",
            "Pod",
            {"spec": {"hostname": 3, "containers": [{"resources": {"limits": {"cpu": "x"}}}]}},
            QUANTITY,
        ),
        ("", "Pod", {"spec": {"containers": [{"resources": {"limits": {"cpu": "1x"}}}]}}, QUANTITY),
        (
            "",
            "Pod",
            {"spec": {"containers": [{"resources": {"limits": {"cpu": "1kk"}}}]}},
            "unable to parse quantity's suffix",
        ),
        (
            "",
            "Service",
            {"spec": {"ports": [{"targetPort": {}}]}},
            "json: cannot unmarshal object into Go value of type int32",
        ),
        (
            "",
            "Pod",
            {"metadata": {"creationTimestamp": 3}},
            "json: cannot unmarshal number into Go value of type string",
        ),
    ],
)
def test_the_first_fault(
    group: str, kind: str, document: dict[str, Any], message: str | None
) -> None:
    known = schema.load_builtin(group, "v1", kind)
    assert decode_fault(known.node, document) == message


LAYOUT = "2006-01-02T15:04:05Z07:00"


@pytest.mark.parametrize(
    ("text", "micro", "message"),
    [
        ("2027-01-15T08:00:00Z", False, None),
        ("2027-01-15T08:00:00.5+02:00", False, None),
        ("", False, f'parsing time "" as "{LAYOUT}": cannot parse "" as "2006"'),
        ("now", False, f'parsing time "now" as "{LAYOUT}": cannot parse "now" as "2006"'),
        (
            "2027-01-15",
            False,
            f'parsing time "2027-01-15" as "{LAYOUT}": cannot parse "" as "T"',
        ),
        ("2027-13-15T08:00:00Z", False, 'parsing time "2027-13-15T08:00:00Z": month out of range'),
        ("2027-02-30T08:00:00Z", False, 'parsing time "2027-02-30T08:00:00Z": day out of range'),
        ("2027-01-15T08:00:00.000000Z", True, None),
        (
            "2027-01-15T08:00:00Z",
            True,
            (
                'parsing time "2027-01-15T08:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": '
                'cannot parse "Z" as ".000000"'
            ),
        ),
    ],
)
def test_times(text: str, micro: bool, message: str | None) -> None:
    assert fault(text, micro=micro) == message
