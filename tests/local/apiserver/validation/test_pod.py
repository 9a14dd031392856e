"""Semantic rules for pods, with upstream's messages."""

from typing import Any

import pytest

from local.apiserver.strategies import default, strategy_of
from traincrew.local.apiserver import schema
from traincrew.local.apiserver.kinds.validation import validate
from traincrew.local.apiserver.values.codec import clone

POD = schema.load_builtin("", "v1", "Pod")


def pod(container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    first = {"name": "a", "image": "busybox"} | (container or {})
    obj = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [first]} | spec,
    }
    assert POD.prune(obj) == []
    default("", "Pod", obj)
    return obj


def faults(obj: dict[str, Any], old: dict[str, Any] | None = None) -> list[tuple[str, str]]:
    found = POD.validate(obj) or validate(strategy_of("", "Pod"), obj, old)
    return [(cause.field, cause.message) for cause in found]


def test_a_valid_pod_has_no_faults() -> None:
    container = {
        "ports": [{"name": "http", "containerPort": 80}],
        "env": [
            {"name": "A", "value": "1"},
            {"name": "odd name!", "value": "2"},
            {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a/b']"}}},
            {"name": "C", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            {"name": "D", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
        ],
        "envFrom": [{"prefix": "P_", "secretRef": {"name": "s"}}],
        "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "a/b"}],
        "resources": {
            "limits": {"cpu": "1", "nvidia.com/gpu": 1},
            "requests": {"nvidia.com/gpu": "1"},
        },
        "livenessProbe": {"exec": {"command": ["true"]}},
        "lifecycle": {"preStop": {"sleep": {"seconds": 3}}},
    }
    good = pod(
        container,
        volumes=[{"name": "v", "emptyDir": {}}],
        initContainers=[{"name": "i", "image": "x"}],
        tolerations=[{"operator": "Exists"}],
        hostAliases=[{"ip": "127.0.0.1", "hostnames": ["a.b"]}],
        nodeSelector={"a": "b"},
        dnsPolicy="None",
        dnsConfig={"nameservers": ["1.1.1.1"]},
    )
    assert faults(good) == []


LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and"
    " must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used"
    " for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
PORTS = "must be between 1 and 65535, inclusive"
C = "spec.containers[0]"

CONTAINERS: list[tuple[dict[str, Any], str, str]] = [
    ({"name": "A_B"}, f"{C}.name", f'Invalid value: "A_B": {LABEL}'),
    ({"image": ""}, f"{C}.image", "Required value"),
    (
        {"imagePullPolicy": "Sometimes"},
        f"{C}.imagePullPolicy",
        'Unsupported value: "Sometimes": supported values: "Always", "IfNotPresent", "Never"',
    ),
    (
        {"terminationMessagePolicy": "Shout"},
        f"{C}.terminationMessagePolicy",
        'Unsupported value: "Shout": supported values: "File", "FallbackToLogsOnError"',
    ),
    ({"ports": [{"name": "p"}]}, f"{C}.ports[0].containerPort", "Required value"),
    (
        {"ports": [{"containerPort": 70000}]},
        f"{C}.ports[0].containerPort",
        f"Invalid value: 70000: {PORTS}",
    ),
    (
        {"ports": [{"containerPort": 1, "hostPort": -1}]},
        f"{C}.ports[0].hostPort",
        f"Invalid value: -1: {PORTS}",
    ),
    (
        {"ports": [{"containerPort": 1, "protocol": "ICMP"}]},
        f"{C}.ports[0].protocol",
        'Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"',
    ),
    (
        {"ports": [{"containerPort": 1, "name": "p"}, {"containerPort": 2, "name": "p"}]},
        f"{C}.ports[1].name",
        'Duplicate value: "p"',
    ),
    (
        {"ports": [{"containerPort": 1, "name": "much-too-long-name"}]},
        f"{C}.ports[0].name",
        'Invalid value: "much-too-long-name": must be no more than 15 characters',
    ),
    (
        {"ports": [{"containerPort": 1, "name": "123"}]},
        f"{C}.ports[0].name",
        'Invalid value: "123": must contain at least one letter (a-z)',
    ),
    (
        {"env": [{"name": "A=B"}]},
        f"{C}.env[0].name",
        (
            'Invalid value: "A=B": a valid environment variable name must consist only of printable'
            " ASCII characters other than '='"
        ),
    ),
    (
        {"env": [{"name": "A", "valueFrom": {}}]},
        f"{C}.env[0].valueFrom",
        (
            'Invalid value: "": must specify one of: `fieldRef`, `resourceFieldRef`,'
            " `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        ),
    ),
    (
        {
            "env": [
                {
                    "name": "A",
                    "value": "x",
                    "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}},
                }
            ]
        },
        f"{C}.env[0].valueFrom",
        'Invalid value: "": may not be specified when `value` is not empty',
    ),
    (
        {
            "env": [
                {
                    "name": "A",
                    "valueFrom": {
                        "fieldRef": {"fieldPath": "metadata.name"},
                        "secretKeyRef": {"name": "s", "key": "k"},
                    },
                }
            ]
        },
        f"{C}.env[0].valueFrom",
        'Invalid value: "": may not have more than one field specified at a time',
    ),
    (
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.nam"}}}]},
        f"{C}.env[0].valueFrom.fieldRef.fieldPath",
        (
            'Invalid value: "metadata.nam": error converting fieldPath: field label not supported:'
            " metadata.nam"
        ),
    ),
    (
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels"}}}]},
        f"{C}.env[0].valueFrom.fieldRef.fieldPath",
        (
            'Unsupported value: "metadata.labels": supported values: "metadata.name",'
            ' "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",'
            ' "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"'
        ),
    ),
    (
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName['a']"}}}]},
        f"{C}.env[0].valueFrom.fieldRef.fieldPath",
        (
            "Invalid value: \"spec.nodeName['a']\": error converting fieldPath: field label does"
            " not support subscript: spec.nodeName['a']"
        ),
    ),
    (
        {"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "cpu"}}}]},
        f"{C}.env[0].valueFrom.resourceFieldRef.resource",
        (
            'Unsupported value: "cpu": supported values: "limits.cpu", "limits.ephemeral-storage",'
            ' "limits.memory", "requests.cpu", "requests.ephemeral-storage", "requests.memory"'
        ),
    ),
    (
        {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s"}}}]},
        f"{C}.env[0].valueFrom.secretKeyRef.key",
        "Required value",
    ),
    (
        {"envFrom": [{"prefix": "P"}]},
        f"{C}.envFrom",
        'Invalid value: "": must specify one of: `configMapRef` or `secretRef`',
    ),
    ({"envFrom": [{"configMapRef": {}}]}, f"{C}.envFrom[0].configMapRef.name", "Required value"),
    (
        {"volumeMounts": [{"name": "nope", "mountPath": "/x"}]},
        f"{C}.volumeMounts[0].name",
        'Not found: "nope"',
    ),
    (
        {"volumeMounts": [{"name": "v", "mountPath": "/x"}, {"name": "v", "mountPath": "/x"}]},
        f"{C}.volumeMounts[1].mountPath",
        'Invalid value: "/x": must be unique',
    ),
    (
        {"volumeMounts": [{"name": "v", "mountPath": "/x", "subPath": "/abs"}]},
        f"{C}.volumeMounts[0].subPath",
        'Invalid value: "/abs": must be a relative path',
    ),
    (
        {"volumeMounts": [{"name": "v", "mountPath": "/x", "subPath": "a/../b"}]},
        f"{C}.volumeMounts[0].subPath",
        "Invalid value: \"a/../b\": must not contain '..'",
    ),
    ({"volumeMounts": [{"name": "v"}]}, f"{C}.volumeMounts[0].mountPath", "Required value"),
    (
        {"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}},
        f"{C}.resources.requests",
        'Invalid value: "2": must be less than or equal to cpu limit of 1',
    ),
    (
        {"resources": {"requests": {"nvidia.com/gpu": 1}}},
        f"{C}.resources.limits",
        "Required value: Limit must be set for non overcommitable resources",
    ),
    (
        {"resources": {"limits": {"nvidia.com/gpu": "500m"}}},
        f"{C}.resources.limits[nvidia.com/gpu]",
        'Invalid value: "500m": must be an integer',
    ),
    (
        {"resources": {"limits": {"cpu": "-1"}}},
        f"{C}.resources.limits[cpu]",
        'Invalid value: "-1": must be greater than or equal to 0',
    ),
    (
        {"resources": {"limits": {"pods": 1}}},
        f"{C}.resources.limits[pods]",
        'Invalid value: "pods": must be a standard resource for containers',
    ),
    (
        {"livenessProbe": {"periodSeconds": 1}},
        f"{C}.livenessProbe",
        "Required value: must specify a handler type",
    ),
    (
        {"livenessProbe": {"exec": {"command": ["a"]}, "tcpSocket": {"port": 1}}},
        f"{C}.livenessProbe.tcpSocket",
        "Forbidden: may not specify more than 1 handler type",
    ),
    (
        {"livenessProbe": {"exec": {}}},
        f"{C}.livenessProbe.exec.command",
        "Required value",
    ),
    (
        {"livenessProbe": {"httpGet": {"port": 0}}},
        f"{C}.livenessProbe.httpGet.port",
        f"Invalid value: 0: {PORTS}",
    ),
    (
        {"livenessProbe": {"tcpSocket": {"port": "Not A Name"}}},
        f"{C}.livenessProbe.tcpSocket.port",
        (
            'Invalid value: "Not A Name": must contain only alpha-numeric characters (a-z, 0-9),'
            " and hyphens (-)"
        ),
    ),
    (
        {"livenessProbe": {"exec": {"command": ["a"]}, "successThreshold": 2}},
        f"{C}.livenessProbe.successThreshold",
        "Invalid value: 2: must be 1",
    ),
    (
        {"readinessProbe": {"exec": {"command": ["a"]}, "initialDelaySeconds": -1}},
        f"{C}.readinessProbe.initialDelaySeconds",
        "Invalid value: -1: must be greater than or equal to 0",
    ),
    (
        {"lifecycle": {"preStop": {"sleep": {"seconds": 31}}}},
        f"{C}.lifecycle.preStop.sleep",
        "Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)",
    ),
]


@pytest.mark.parametrize(("container", "field", "message"), CONTAINERS)
def test_invalid_containers(container: dict[str, Any], field: str, message: str) -> None:
    obj = pod(container, volumes=[{"name": "v", "emptyDir": {}}])
    found = faults(obj)
    # An invalid limit makes the request that defaults to it invalid, too.
    assert [fault for fault in found if ".requests[" not in fault[0]] == [(field, message)]


def test_unknown_resources() -> None:
    found = faults(pod({"resources": {"requests": {"gpu": 1, "requests.example.com/a": 1}}}))
    path = f"{C}.resources.requests"
    assert found == [
        (
            f"{path}[gpu]",
            'Invalid value: "gpu": must be a standard resource type or fully qualified',
        ),
        (f"{path}[gpu]", 'Invalid value: "gpu": must be a standard resource for containers'),
        (
            f"{path}[requests.example.com/a]",
            (
                'Invalid value: "requests.example.com/a": doesn\'t follow extended resource name'
                " standard"
            ),
        ),
        (
            f"{C}.resources.limits",
            "Required value: Limit must be set for non overcommitable resources",
        ),
    ]


SPREAD = {"topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway", "maxSkew": 1}
SPECS: list[tuple[dict[str, Any], str, str]] = [
    ({"containers": []}, "spec.containers", "Required value"),
    (
        {"containers": [{"name": "a", "image": "x"}] * 2},
        "spec.containers[1].name",
        'Duplicate value: "a"',
    ),
    (
        {"initContainers": [{"name": "a", "image": "x"}]},
        "spec.initContainers[0].name",
        'Duplicate value: "a"',
    ),
    (
        {
            "initContainers": [
                {"name": "i", "image": "x", "livenessProbe": {"exec": {"command": ["a"]}}}
            ]
        },
        "spec.initContainers[0].livenessProbe",
        "Forbidden: may not be set for init containers without restartPolicy=Always",
    ),
    (
        {
            "containers": [
                {"name": name, "image": "x", "ports": [{"containerPort": 1, "hostPort": 80}]}
                for name in "ab"
            ]
        },
        "spec.containers[1].ports[0].hostPort",
        'Duplicate value: "TCP//80"',
    ),
    (
        {"restartPolicy": "Often"},
        "spec.restartPolicy",
        'Unsupported value: "Often": supported values: "Always", "OnFailure", "Never"',
    ),
    (
        {"dnsPolicy": "Own"},
        "spec.dnsPolicy",
        (
            'Unsupported value: "Own": supported values: "ClusterFirstWithHostNet", "ClusterFirst",'
            ' "Default", "None"'
        ),
    ),
    (
        {"dnsPolicy": "None"},
        "spec.dnsConfig",
        "Required value: must provide `dnsConfig` when `dnsPolicy` is None",
    ),
    (
        {"dnsConfig": {"nameservers": ["here"]}},
        "spec.dnsConfig.nameservers[0]",
        'Invalid value: "here": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
    ),
    ({"hostname": "a.b"}, "spec.hostname", 'Invalid value: "a.b": must not contain dots'),
    (
        {"activeDeadlineSeconds": 0},
        "spec.activeDeadlineSeconds",
        "Invalid value: 0: must be between 1 and 2147483647, inclusive",
    ),
    (
        {"tolerations": [{"key": "a", "operator": "Near"}]},
        "spec.tolerations[0].operator",
        'Unsupported value: "Near": supported values: "Equal", "Exists"',
    ),
    (
        {"tolerations": [{"value": "a"}]},
        "spec.tolerations[0].operator",
        (
            'Invalid value: "": operator must be Exists when `key` is empty, which means "match all'
            ' values and all keys"'
        ),
    ),
    (
        {"tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 1}]},
        "spec.tolerations[0].effect",
        "Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set",
    ),
    (
        {"hostAliases": [{"ip": "x"}]},
        "spec.hostAliases[0].ip",
        'Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
    ),
    (
        {"topologySpreadConstraints": [{"topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]},
        "spec.topologySpreadConstraints[0].maxSkew",
        "Invalid value: 0: must be greater than zero",
    ),
    (
        {"topologySpreadConstraints": [SPREAD, SPREAD | {"maxSkew": 2}]},
        "spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}",
        'Duplicate value: "{z, ScheduleAnyway}"',
    ),
    (
        {"topologySpreadConstraints": [SPREAD | {"minDomains": 2}]},
        "spec.topologySpreadConstraints[0].minDomains",
        (
            "Invalid value: 2: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not "
            "ScheduleAnyway"
        ),
    ),
    (
        {
            "topologySpreadConstraints": [
                SPREAD | {"minDomains": 0, "whenUnsatisfiable": "DoNotSchedule"}
            ]
        },
        "spec.topologySpreadConstraints[0].minDomains",
        "Invalid value: 0: must be greater than zero",
    ),
    (
        {"topologySpreadConstraints": [SPREAD | {"nodeTaintsPolicy": "x"}]},
        "spec.topologySpreadConstraints[0].nodeTaintsPolicy",
        'Unsupported value: "x": supported values: "Honor", "Ignore"',
    ),
    (
        {"topologySpreadConstraints": [SPREAD | {"matchLabelKeys": ["a"]}]},
        "spec.topologySpreadConstraints[0].matchLabelKeys",
        "Forbidden: must not be specified when labelSelector is not set",
    ),
    (
        {
            "topologySpreadConstraints": [
                SPREAD | {"matchLabelKeys": ["a" * 64], "labelSelector": {}}
            ]
        },
        "spec.topologySpreadConstraints[0].matchLabelKeys[0]",
        f'Invalid value: "{"a" * 64}": name part must be no more than 63 bytes',
    ),
    (
        {"schedulingGates": [{"name": "a"}, {"name": "a"}]},
        "spec.schedulingGates[1]",
        'Duplicate value: "a"',
    ),
]


@pytest.mark.parametrize(("spec", "field", "message"), SPECS)
def test_invalid_specs(spec: dict[str, Any], field: str, message: str) -> None:
    assert faults(pod(**spec)) == [(field, message)]


VOLUMES: list[tuple[dict[str, Any], str, str]] = [
    (
        {"emptyDir": {}, "hostPath": {"path": "/"}},
        "hostPath",
        "Forbidden: may not specify more than 1 volume type",
    ),
    ({"secret": {}}, "secret.secretName", "Required value"),
    ({"configMap": {}}, "configMap.name", "Required value"),
    (
        {"configMap": {"name": "c", "defaultMode": 0o1000}},
        "configMap.defaultMode",
        "Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive",
    ),
    (
        {"configMap": {"name": "c", "items": [{"key": "k", "path": "../x"}]}},
        "configMap.items[0].path",
        "Invalid value: \"../x\": must not contain '..'",
    ),
    (
        {"configMap": {"name": "c", "items": [{"key": "k", "path": "..x"}]}},
        "configMap.items[0].path",
        "Invalid value: \"..x\": must not start with '..'",
    ),
    ({"configMap": {"name": "c", "items": [{"path": "x"}]}}, "configMap.items[0].key", None),  # type: ignore[list-item]
    (
        {"hostPath": {"path": "/a/../b"}},
        "hostPath.path",
        "Invalid value: \"/a/../b\": must not contain '..'",
    ),
    (
        {"hostPath": {"path": "/", "type": "Pipe"}},
        "hostPath.type",
        (
            'Unsupported value: "Pipe": supported values: "", "BlockDevice", "CharDevice",'
            ' "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"'
        ),
    ),
    (
        {"downwardAPI": {"items": [{"path": "a"}]}},
        "downwardAPI",
        "Required value: one of fieldRef and resourceFieldRef is required",
    ),
    (
        {
            "projected": {
                "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 5}}]
            }
        },
        "projected.sources[0].serviceAccountToken.expirationSeconds",
        "Invalid value: 5: may not specify a duration less than 10 minutes",
    ),
]


@pytest.mark.parametrize(("source", "field", "message"), VOLUMES)
def test_invalid_volumes(source: dict[str, Any], field: str, message: str | None) -> None:
    obj = pod(volumes=[{"name": "v"} | source])
    assert faults(obj) == [(f"spec.volumes[0].{field}", message or "Required value")]


def test_volumes_have_unique_names() -> None:
    obj = pod(volumes=[{"name": "v"}, {"name": "v"}])
    assert faults(obj) == [("spec.volumes[1].name", 'Duplicate value: "v"')]


@pytest.mark.parametrize(
    ("metadata", "field", "text"),
    [
        ({"name": "A"}, "metadata.name", "a lowercase RFC 1123 subdomain must consist of"),
        ({"name": ""}, "metadata.name", "Required value: name or generateName is required"),
        ({"name": "a" * 254}, "metadata.name", "must be no more than 253 bytes"),
        ({"labels": {"a b": "c"}}, "metadata.labels", 'Invalid value: "a b": name part must'),
        ({"labels": {"/a": "c"}}, "metadata.labels", "prefix part must be non-empty"),
        ({"labels": {"a/b/c": ""}}, "metadata.labels", "a qualified name must consist of"),
        ({"labels": {"a": "b" * 64}}, "metadata.labels", "must be no more than 63 bytes"),
        (
            {"annotations": {"a": "x" * 262144}},
            "metadata.annotations",
            "Too long: may not be more than 262144 bytes",
        ),
        ({"finalizers": ["a b"]}, "metadata.finalizers", "name part must consist of"),
        (
            {
                "ownerReferences": [
                    {
                        "apiVersion": "v1",
                        "kind": "Pod",
                        "name": name,
                        "uid": "u",
                        "controller": True,
                    }
                    for name in "ab"
                ]
            },
            "metadata.ownerReferences",
            (
                'Only one reference can have Controller set to true. Found "true" in references for'
                " Pod/a and Pod/b"
            ),
        ),
    ],
)
def test_invalid_metadata(metadata: dict[str, Any], field: str, text: str) -> None:
    obj = pod()
    obj["metadata"] |= metadata
    ((where, message),) = faults(obj)
    assert where == field
    assert text in message


def test_generated_names_may_end_with_a_dash() -> None:
    obj = pod()
    obj["metadata"] = {"generateName": "a-", "name": "a-x1"}
    assert faults(obj) == []
    obj["metadata"]["generateName"] = "A-"
    assert [field for field, _ in faults(obj)] == ["metadata.generateName"]


# --- updates ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"containers": [{"image": "other"}]},
        {"activeDeadlineSeconds": 5},
        {"tolerations": [{"key": "a", "operator": "Exists"}]},
    ],
)
def test_mutable_fields_of_a_pod(change: dict[str, Any]) -> None:
    old = pod()
    new = clone(old)
    for key, item in change.items():
        if key == "containers":
            new["spec"][key][0] |= item[0]
        else:
            new["spec"][key] = item
    assert faults(new, old) == []


@pytest.mark.parametrize(
    ("before", "change", "field", "text"),
    [
        ({}, {"hostname": "x"}, "spec", "Forbidden: pod updates may not change fields other than"),
        ({}, {"nodeSelector": {"a": "b"}}, "spec", '+ "NodeSelector": {\n+  "a": "b"'),
        (
            {},
            {"containers": []},
            "spec.containers",
            "Forbidden: pod updates may not add or remove containers",
        ),
        (
            {"activeDeadlineSeconds": 5},
            {"activeDeadlineSeconds": 6},
            "spec.activeDeadlineSeconds",
            "must be less than or equal to previous value",
        ),
        (
            {"activeDeadlineSeconds": 5},
            {"activeDeadlineSeconds": None},
            "spec.activeDeadlineSeconds",
            "must not update from a positive integer to nil value",
        ),
        (
            {"tolerations": [{"key": "a", "operator": "Exists"}]},
            {"tolerations": []},
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        ),
        (
            {"schedulingGates": [{"name": "a"}]},
            {"schedulingGates": [{"name": "b"}]},
            "spec.schedulingGates[0].name",
            "only deletion is allowed, but found new scheduling gate 'b'",
        ),
    ],
)
def test_immutable_fields_of_a_pod(
    before: dict[str, Any], change: dict[str, Any], field: str, text: str
) -> None:
    old = pod(**before)
    new = clone(old)
    for key, item in change.items():
        if item is None:
            del new["spec"][key]
        else:
            new["spec"][key] = item
    found = [
        (cause.field, cause.message)
        for cause in validate(strategy_of("", "Pod"), new, old)
        if "Required" not in cause.message
    ]
    assert found[0][0] == field
    assert text in found[0][1]


def test_names_and_finalizers_of_a_terminating_object_are_immutable() -> None:
    old = pod()
    new = clone(old)
    new["metadata"]["name"] = "other"
    assert faults(new, old) == [("metadata.name", 'Invalid value: "other": field is immutable')]
    new = clone(old)
    old["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z"
    new["metadata"]["finalizers"] = ["a/b"]
    ((field, message),) = faults(new, old)
    assert field == "metadata.finalizers"
    assert "no new finalizers can be added if the object is being deleted" in message
