"""Semantic rules of the kinds other than pods, with upstream's messages."""

import base64
from typing import Any

import pytest

from local.apiserver.strategies import default, default_after_uid, strategy_of
from traincrew.local.apiserver import schema
from traincrew.local.apiserver.kinds.validation import validate
from traincrew.local.apiserver.values.codec import clone

CONTAINER = {"name": "a", "image": "busybox:1"}
LABELS = {"app": "x"}
SELECTOR = {"matchLabels": LABELS}


def template(restart: str | None = None, labels: dict[str, str] | None = None) -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [dict(CONTAINER)]}
    if restart is not None:
        spec["restartPolicy"] = restart
    return {"metadata": {"labels": LABELS if labels is None else labels}, "spec": spec}


BASE: dict[str, tuple[str, dict[str, Any]]] = {
    "Job": ("batch/v1", {"spec": {"template": template("Never")}}),
    "CronJob": (
        "batch/v1",
        {
            "spec": {
                "schedule": "* * * * *",
                "jobTemplate": {"spec": {"template": template("Never")}},
            }
        },
    ),
    "StatefulSet": (
        "apps/v1",
        {"spec": {"selector": SELECTOR, "serviceName": "s", "template": template()}},
    ),
    "Deployment": ("apps/v1", {"spec": {"selector": SELECTOR, "template": template()}}),
    "ReplicaSet": ("apps/v1", {"spec": {"selector": SELECTOR, "template": template()}}),
    "DaemonSet": ("apps/v1", {"spec": {"selector": SELECTOR, "template": template()}}),
    "ReplicationController": ("v1", {"spec": {"template": template()}}),
    "ControllerRevision": ("apps/v1", {"data": {"a": 1}, "revision": 1}),
    "PodTemplate": ("v1", {"template": template()}),
    "Service": ("v1", {"spec": {"ports": [{"port": 80}]}}),
    "ConfigMap": ("v1", {"data": {"a": "b"}}),
    "Secret": ("v1", {"data": {"a": "Yg=="}}),
    "Namespace": ("v1", {}),
    "Node": ("v1", {}),
    "ServiceAccount": ("v1", {}),
    "Endpoints": ("v1", {"subsets": [{"addresses": [{"ip": "10.0.0.1"}]}]}),
    "Event": ("v1", {"involvedObject": {"kind": "Pod", "namespace": "default"}}),
    "Binding": ("v1", {"target": {"kind": "Node", "name": "n"}}),
    "PersistentVolumeClaim": (
        "v1",
        {
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            }
        },
    ),
    "PersistentVolume": (
        "v1",
        {
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "1Gi"},
                "hostPath": {"path": "/"},
            }
        },
    ),
    "Role": (
        "rbac.authorization.k8s.io/v1",
        {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    ),
    "ClusterRole": (
        "rbac.authorization.k8s.io/v1",
        {"rules": [{"nonResourceURLs": ["/"], "verbs": ["get"]}]},
    ),
    "RoleBinding": (
        "rbac.authorization.k8s.io/v1",
        {
            "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [{"kind": "ServiceAccount", "name": "s", "namespace": "d"}],
        },
    ),
    "ClusterRoleBinding": (
        "rbac.authorization.k8s.io/v1",
        {"roleRef": {"kind": "ClusterRole", "name": "r"}},
    ),
    "Lease": ("coordination.k8s.io/v1", {"spec": {"leaseDurationSeconds": 15}}),
    "PodDisruptionBudget": ("policy/v1", {"spec": {"minAvailable": 1, "selector": SELECTOR}}),
    "EndpointSlice": (
        "discovery.k8s.io/v1",
        {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}]},
    ),
    "PriorityClass": ("scheduling.k8s.io/v1", {"value": 7}),
    "StorageClass": ("storage.k8s.io/v1", {"provisioner": "p"}),
}


def merged(base: Any, change: Any) -> Any:
    """Merge a change into a document; None deletes, lists are replaced."""
    if not isinstance(change, dict) or not isinstance(base, dict):
        return clone(change)
    result = dict(base)
    for key, item in change.items():
        if item is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key, {}), item)
    return result


def build(kind: str, change: dict[str, Any] | None = None) -> dict[str, Any]:
    api_version, content = BASE[kind]
    group, _, version = api_version.rpartition("/")
    obj: dict[str, Any] = {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "x", "namespace": "default", "uid": "u"},
    } | clone(content)
    obj = merged(obj, change or {})
    known = schema.load_builtin(group, version, kind)
    assert known.prune(obj) == []
    default(group, kind, obj)
    default_after_uid(group, kind, obj)
    return obj


def faults(obj: dict[str, Any], old: dict[str, Any] | None = None) -> list[tuple[str, str]]:
    group, _, version = obj["apiVersion"].rpartition("/")
    found = schema.load_builtin(group, version, obj["kind"]).validate(obj)
    found = found or validate(strategy_of(group, obj["kind"]), obj, old)
    return [(cause.field, cause.message) for cause in found]


@pytest.mark.parametrize("kind", sorted(BASE))
def test_valid_objects_have_no_faults(kind: str) -> None:
    obj = build(kind)
    assert faults(obj) == []
    assert faults(clone(obj), obj) == []


MISMATCH = "`selector` does not match template `labels`"
CASES: list[tuple[str, dict[str, Any], str, str]] = [
    # Job
    (
        "Job",
        {"spec": {"template": {"spec": {"restartPolicy": "Always"}}}},
        "spec.template.spec.restartPolicy",
        'Required value: valid values: "OnFailure", "Never"',
    ),
    (
        "Job",
        {"spec": {"parallelism": -1}},
        "spec.parallelism",
        "Invalid value: -1: must be greater than or equal to 0",
    ),
    (
        "Job",
        {"spec": {"completionMode": "Sorted"}},
        "spec.completionMode",
        'Unsupported value: "Sorted": supported values: "NonIndexed", "Indexed"',
    ),
    (
        "Job",
        {"spec": {"completionMode": "Indexed", "parallelism": 1}},
        "spec.completions",
        "Required value: when completion mode is Indexed",
    ),
    (
        "Job",
        {"spec": {"backoffLimitPerIndex": 1}},
        "spec.backoffLimitPerIndex",
        "Invalid value: 1: requires indexed completion mode",
    ),
    (
        "Job",
        {"spec": {"selector": {"matchLabels": {"a": "b"}}}},
        "spec.selector",
        (
            'Invalid value: {"matchLabels":{"a":"b","batch.kubernetes.io/controller-uid":"u"}}:'
            " `selector` not auto-generated"
        ),
    ),
    (
        "Job",
        {"spec": {"manualSelector": True, "selector": {"matchLabels": {"a": "b"}}}},
        "spec.template.metadata.labels",
        f'Invalid value: {{"app":"x"}}: {MISMATCH}',
    ),
    ("Job", {"spec": {"manualSelector": True}}, "spec.selector", "Required value"),
    (
        "Job",
        {"metadata": {"name": "a.b"}, "spec": {"completionMode": "Indexed", "completions": 2}},
        "metadata.name",
        'Invalid value: "a.b": will not able to create pod with invalid DNS label: a.b-1',
    ),
    (
        "Job",
        {"spec": {"template": {"metadata": {"labels": {"job-name": "other"}}}}},
        "spec.template.metadata.labels[job-name]",
        (
            'Invalid value: {"app":"x","batch.kubernetes.io/controller-uid":"u",'
            '"batch.kubernetes.io/job-name":"x","controller-uid":"u","job-name":"other"}:'
            " must be 'x'"
        ),
    ),
    (
        "Job",
        {"spec": {"podFailurePolicy": {"rules": [{"action": "Ignore"}]}}},
        "spec.podFailurePolicy.rules[0]",
        "Invalid value: specifying one of OnExitCodes and OnPodConditions is required",
    ),
    (
        "Job",
        {
            "spec": {
                "podFailurePolicy": {
                    "rules": [
                        {
                            "action": "FailJob",
                            "onExitCodes": {"operator": "In", "values": [2, 1]},
                        }
                    ]
                }
            }
        },
        "spec.podFailurePolicy.rules[0].onExitCodes.values",
        "Invalid value: [2,1]: must be ordered",
    ),
    (
        "Job",
        {
            "spec": {
                "podFailurePolicy": {
                    "rules": [
                        {
                            "action": "FailJob",
                            "onExitCodes": {
                                "operator": "In",
                                "values": [1],
                                "containerName": "z",
                            },
                        }
                    ]
                }
            }
        },
        "spec.podFailurePolicy.rules[0].onExitCodes.containerName",
        (
            'Invalid value: "z": must be one of the container or initContainer names in the pod'
            " template"
        ),
    ),
    (
        "Job",
        {"spec": {"successPolicy": {"rules": []}}},
        "spec.successPolicy",
        'Invalid value: {"rules":[]}: requires indexed completion mode',
    ),
    (
        "Job",
        {
            "spec": {
                "completionMode": "Indexed",
                "completions": 3,
                "successPolicy": {"rules": [{"succeededIndexes": "1,5"}]},
            }
        },
        "spec.successPolicy.rules[0].succeededIndexes",
        'Invalid value: "1,5": error parsing succeededIndexes: too large index: "5"',
    ),
    *(
        (
            "Job",
            {
                "spec": {
                    "completionMode": "Indexed",
                    "completions": 8,
                    "successPolicy": {"rules": [{"succeededIndexes": indexes}]},
                }
            },
            "spec.successPolicy.rules[0].succeededIndexes",
            f'Invalid value: "{indexes}": error parsing succeededIndexes: {text}',
        )
        for indexes, text in (
            ("3,1", "non-increasing order, previous: 3, current: 1"),
            ("2-2", "non-increasing order, previous: 2, current: 2"),
            ("a", 'cannot convert string to integer for index: "a"'),
            (
                "1-2-3",
                (
                    'the fragment "1-2-3" violates the requirement that an index interval can'
                    " have at most two parts separated by '-'"
                ),
            ),
        )
    ),
    (
        "Job",
        {
            "spec": {
                "completionMode": "Indexed",
                "completions": 8,
                "successPolicy": {"rules": [{"succeededIndexes": "1-3,5", "succeededCount": 5}]},
            }
        },
        "spec.successPolicy.rules[0].succeededCount",
        (
            "Invalid value: 5: must be less than or equal to 4 (the number of indexes in the"
            " specified succeededIndexes field)"
        ),
    ),
    (
        "Job",
        {"spec": {"podReplacementPolicy": "Never"}},
        "spec.podReplacementPolicy",
        'Unsupported value: "Never": supported values: "Failed", "TerminatingOrFailed"',
    ),
    (
        "CronJob",
        {"spec": {"schedule": "* * *"}},
        "spec.schedule",
        'Invalid value: "* * *": expected exactly 5 fields, found 3: [* * *]',
    ),
    # StatefulSet
    (
        "StatefulSet",
        {"metadata": {"name": "a.b"}},
        "metadata.name",
        'Invalid value: "a.b": must not contain dots',
    ),
    (
        "StatefulSet",
        {"spec": {"volumeClaimTemplates": [{"metadata": {"name": "c"}, "spec": {}}]}},
        "spec.volumeClaimTemplates[0].spec.resources[storage]",
        "Required value",
    ),
    (
        "StatefulSet",
        {"spec": {"selector": {"matchExpressions": [{"key": "app", "operator": "In"}]}}},
        "spec.selector",
        (
            'Invalid value: {"matchLabels":{"app":"x"},"matchExpressions":[{"key":"app",'
            '"operator":"In"}]}: invalid label selector'
        ),
    ),
    (
        "StatefulSet",
        {"spec": {"template": {"spec": {"restartPolicy": "Never"}}}},
        "spec.template.spec.restartPolicy",
        'Unsupported value: "Never": supported values: "Always"',
    ),
    (
        "StatefulSet",
        {"spec": {"podManagementPolicy": "Random"}},
        "spec.podManagementPolicy",
        "Invalid value: \"Random\": must be 'OrderedReady' or 'Parallel'",
    ),
    (
        "StatefulSet",
        {"spec": {"selector": {"matchLabels": {"app": "y"}}}},
        "spec.template.metadata.labels",
        f'Invalid value: {{"app":"x"}}: {MISMATCH}',
    ),
    (
        "StatefulSet",
        {"spec": {"selector": None}},
        "spec.selector",
        "Required value",
    ),
    (
        "StatefulSet",
        {"spec": {"selector": {"matchLabels": None}}},
        "spec.selector",
        "Invalid value: {}: empty selector is invalid for statefulset",
    ),
    (
        "StatefulSet",
        {"spec": {"template": {"spec": {"activeDeadlineSeconds": 5}}}},
        "spec.template.spec.activeDeadlineSeconds",
        "Forbidden: activeDeadlineSeconds in StatefulSet is not Supported",
    ),
    (
        "StatefulSet",
        {"spec": {"updateStrategy": {"type": "Never"}}},
        "spec.updateStrategy",
        "Invalid value: {\"type\":\"Never\"}: must be 'RollingUpdate' or 'OnDelete'",
    ),
    # Deployment
    (
        "Deployment",
        {"spec": {"replicas": -1}},
        "spec.replicas",
        "Invalid value: -1: must be greater than or equal to 0",
    ),
    (
        "Deployment",
        {"spec": {"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}}},
        "spec.strategy.rollingUpdate",
        "Forbidden: may not be specified when strategy `type` is 'Recreate'",
    ),
    (
        "Deployment",
        {"spec": {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}}},
        "spec.strategy.rollingUpdate.maxUnavailable",
        'Invalid value: "0%": may not be 0 when `maxSurge` is 0',
    ),
    (
        "Deployment",
        {"spec": {"strategy": {"rollingUpdate": {"maxUnavailable": "150%"}}}},
        "spec.strategy.rollingUpdate.maxUnavailable",
        'Invalid value: "150%": must not be greater than 100%',
    ),
    (
        "Deployment",
        {"spec": {"progressDeadlineSeconds": 5, "minReadySeconds": 5}},
        "spec.progressDeadlineSeconds",
        "Invalid value: 5: must be greater than minReadySeconds",
    ),
    (
        "Deployment",
        {"spec": {"template": {"spec": {"restartPolicy": "OnFailure"}}}},
        "spec.template.spec.restartPolicy",
        'Unsupported value: "OnFailure": supported values: "Always"',
    ),
    (
        "Deployment",
        {"spec": {"selector": {"matchExpressions": [{"key": "app", "operator": "In"}]}}},
        "spec.selector.matchExpressions[0].values",
        "Required value: must be specified when `operator` is 'In' or 'NotIn'",
    ),
    # Service
    ("Service", {"spec": {"ports": None}}, "spec.ports", "Required value"),
    (
        "Service",
        {"spec": {"ports": [{"port": 1}, {"port": 2, "name": "b"}]}},
        "spec.ports[0].name",
        "Required value",
    ),
    (
        "Service",
        {"spec": {"ports": [{"port": 0}]}},
        "spec.ports[0].port",
        "Invalid value: 0: must be between 1 and 65535, inclusive",
    ),
    (
        "Service",
        {"spec": {"ports": [{"port": 1, "name": "a"}, {"port": 1, "name": "b"}]}},
        "spec.ports[1]",
        (
            'Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":1,'
            '"TargetPort":0,"NodePort":0}'
        ),
    ),
    (
        "Service",
        {"spec": {"ports": [{"port": 1, "nodePort": 30000}]}},
        "spec.ports[0].nodePort",
        "Forbidden: may not be used when `type` is 'ClusterIP'",
    ),
    (
        "Service",
        {"spec": {"type": "Private"}},
        "spec.type",
        (
            'Unsupported value: "Private": supported values: "ClusterIP", "ExternalName",'
            ' "LoadBalancer", "NodePort"'
        ),
    ),
    (
        "Service",
        {"spec": {"type": "ExternalName", "ports": None}},
        "spec.externalName",
        "Required value",
    ),
    (
        "Service",
        {"spec": {"type": "NodePort", "clusterIP": "None"}},
        "spec.clusterIPs[0]",
        "Invalid value: \"None\": may not be set to 'None' for NodePort services",
    ),
    (
        "Service",
        {"spec": {"clusterIP": "somewhere", "clusterIPs": ["somewhere"]}},
        "spec.clusterIPs[0]",
        (
            'Invalid value: "somewhere": must be a valid IP address, (e.g. 10.9.8.7 or'
            " 2001:db8::ffff)"
        ),
    ),
    (
        "Service",
        {"metadata": {"name": "a.b"}},
        "metadata.name",
        'Invalid value: "a.b": must not contain dots',
    ),
    (
        "Service",
        {"spec": {"sessionAffinity": "Cookie"}},
        "spec.sessionAffinity",
        'Unsupported value: "Cookie": supported values: "ClientIP", "None"',
    ),
    # ConfigMap, Secret
    (
        "ConfigMap",
        {"data": {"a/b": "x"}},
        "data[a/b]",
        (
            'Invalid value: "a/b": a valid config key must consist of alphanumeric'
            " characters, '-',"
            " '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for"
            " validation is"
            " '[-._a-zA-Z0-9]+')"
        ),
    ),
    (
        "ConfigMap",
        {"data": {"..x": "x"}},
        "data[..x]",
        "Invalid value: \"..x\": must not start with '..'",
    ),
    (
        "ConfigMap",
        {"binaryData": {"a": "Yg=="}},
        "data[a]",
        'Invalid value: "a": duplicate of key present in binaryData',
    ),
    (
        "ConfigMap",
        {"data": {"big": "x" * (1024 * 1024)}},
        "[]",
        "Too long: may not be more than 1048576 bytes",
    ),
    (
        "Secret",
        {"data": {"big": base64.b64encode(b"x" * (1024 * 1024 + 1)).decode()}},
        "data",
        "Too long: may not be more than 1048576 bytes",
    ),
    (
        "Secret",
        {"type": "kubernetes.io/tls", "data": {"tls.crt": ""}},
        "data[tls.key]",
        "Required value",
    ),
    (
        "Secret",
        {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "eA=="}},
        "data[.dockerconfigjson]",
        'Invalid value: "<secret contents redacted>": Expecting value: line 1 column 1 (char 0)',
    ),
    (
        "Secret",
        {"type": "kubernetes.io/service-account-token"},
        "metadata.annotations[kubernetes.io/service-account.name]",
        "Required value",
    ),
    # Cluster
    (
        "Namespace",
        {"spec": {"finalizers": ["mine"]}},
        "spec.finalizers",
        (
            'Invalid value: "mine": name is neither a standard finalizer name nor is it fully'
            " qualified"
        ),
    ),
    (
        "Node",
        {"spec": {"taints": [{"key": "a", "effect": "Never"}]}},
        "spec.taints[0].effect",
        (
            'Unsupported value: "Never": supported values: "NoExecute", "NoSchedule",'
            ' "PreferNoSchedule"'
        ),
    ),
    (
        "Binding",
        {"target": {"kind": "Pod"}},
        "target.kind",
        'Unsupported value: "Pod": supported values: "Node", "<empty>"',
    ),
    (
        "Endpoints",
        {"subsets": [{}]},
        "subsets[0]",
        "Required value: must specify `addresses` or `notReadyAddresses`",
    ),
    (
        "Event",
        {"involvedObject": {"namespace": "other"}},
        "involvedObject.namespace",
        'Invalid value: "other": does not match event.namespace',
    ),
    (
        "PersistentVolumeClaim",
        {"spec": {"accessModes": None}},
        "spec.accessModes",
        "Required value: at least 1 access mode is required",
    ),
    (
        "PersistentVolumeClaim",
        {"spec": {"resources": {"requests": {"storage": 0}}}},
        "spec.resources[storage]",
        'Invalid value: "0": must be greater than zero',
    ),
    ("PersistentVolume", {"spec": {"capacity": None}}, "spec.capacity", "Required value"),
    (
        "PersistentVolume",
        {"spec": {"hostPath": None}},
        "spec",
        "Required value: must specify a volume type",
    ),
    (
        "PersistentVolume",
        {"spec": {"nfs": {"server": "a", "path": "/"}}},
        "spec.nfs",
        "Forbidden: may not specify more than 1 volume type",
    ),
    (
        "PersistentVolume",
        {"spec": {"hostPath": {"path": "/a/../b"}}},
        "spec.hostPath.path",
        "Invalid value: \"/a/../b\": must not contain '..'",
    ),
    (
        "PersistentVolume",
        {"spec": {"hostPath": None, "local": {"path": "/a"}}},
        "spec.nodeAffinity",
        "Required value: Local volume requires node affinity",
    ),
    (
        "PersistentVolume",
        {"spec": {"persistentVolumeReclaimPolicy": "Recycle"}},
        "spec.persistentVolumeReclaimPolicy",
        "Forbidden: may not be 'recycle' for a hostPath mount of '/'",
    ),
    (
        "PersistentVolume",
        {"spec": {"capacity": {"storage": "0"}}},
        "spec.capacity[storage]",
        'Invalid value: "0": must be greater than zero',
    ),
    # RBAC
    (
        "Role",
        {"rules": [{"apiGroups": [""], "resources": ["pods"]}]},
        "rules[0].verbs",
        "Required value: verbs must contain at least one value",
    ),
    (
        "Role",
        {"rules": [{"resources": ["pods"], "verbs": ["get"]}]},
        "rules[0].apiGroups",
        "Required value: resource rules must supply at least one api group",
    ),
    (
        "Role",
        {"rules": [{"nonResourceURLs": ["/"], "verbs": ["get"]}]},
        "rules[0].nonResourceURLs",
        'Invalid value: ["/"]: namespaced rules cannot apply to non-resource URLs',
    ),
    (
        "Role",
        {"metadata": {"name": "a/b"}},
        "metadata.name",
        "Invalid value: \"a/b\": may not contain '/'",
    ),
    (
        "RoleBinding",
        {"roleRef": {"kind": "User"}},
        "roleRef.kind",
        'Unsupported value: "User": supported values: "Role", "ClusterRole"',
    ),
    (
        "ClusterRoleBinding",
        {"subjects": [{"kind": "ServiceAccount", "name": "s"}]},
        "subjects[0].namespace",
        "Required value",
    ),
    (
        "RoleBinding",
        {"subjects": [{"kind": "Robot", "name": "r"}]},
        "subjects[0].kind",
        'Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group"',
    ),
    # Other kinds
    (
        "Lease",
        {"spec": {"leaseDurationSeconds": 0}},
        "spec.leaseDurationSeconds",
        "Invalid value: 0: must be greater than 0",
    ),
    (
        "PodDisruptionBudget",
        {"spec": {"maxUnavailable": 1}},
        "spec",
        (
            'Invalid value: {"MinAvailable":1,"Selector":{"matchLabels":{"app":"x"}},'
            '"MaxUnavailable":1,"UnhealthyPodEvictionPolicy":null}: '
            "minAvailable and maxUnavailable cannot be both set"
        ),
    ),
    (
        "PodDisruptionBudget",
        {"spec": {"minAvailable": "101%"}},
        "spec.minAvailable",
        'Invalid value: "101%": must not be greater than 100%',
    ),
    (
        "EndpointSlice",
        {"endpoints": [{"addresses": ["::1"]}]},
        "endpoints[0].addresses",
        'Invalid value: "::1": must be an IPv4 address',
    ),
    (
        "PriorityClass",
        {"value": 2_000_000_000},
        "value",
        "Forbidden: maximum allowed value of a user defined priority is 1000000000",
    ),
    (
        "ControllerRevision",
        {"data": None},
        "data",
        "Required value: data is mandatory",
    ),
    (
        "ReplicationController",
        {"spec": {"selector": {"app": "y"}}},
        "spec.template.metadata.labels",
        f'Invalid value: {{"app":"x"}}: {MISMATCH}',
    ),
    (
        "DaemonSet",
        {"spec": {"updateStrategy": {"type": "Slow"}}},
        "spec.updateStrategy",
        'Unsupported value: {"type":"Slow"}: supported values: "RollingUpdate", "OnDelete"',
    ),
    (
        "PodTemplate",
        {"template": {"spec": {"containers": []}}},
        "template.spec.containers",
        "Required value",
    ),
]


@pytest.mark.parametrize(
    ("kind", "change", "field", "message"), CASES, ids=lambda value: str(value)[:60]
)
def test_invalid_objects(kind: str, change: dict[str, Any], field: str, message: str) -> None:
    assert (field, message) in faults(build(kind, change))


FIXED = "field is immutable"
UPDATES: list[tuple[str, dict[str, Any], dict[str, Any], str, str]] = [
    ("Job", {}, {"spec": {"completions": 3}}, "spec.completions", FIXED),
    (
        "Job",
        {},
        {"spec": {"template": {"spec": {"containers": [CONTAINER | {"image": "other"}]}}}},
        "spec.template",
        FIXED,
    ),
    (
        "Job",
        {"spec": {"completionMode": "Indexed", "completions": 2, "parallelism": 2}},
        {"spec": {"completions": 3}},
        "spec.completions",
        "can only be modified in tandem with spec.parallelism",
    ),
    (
        "StatefulSet",
        {},
        {"spec": {"serviceName": "other"}},
        "spec",
        (
            "Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals',"
            " 'template', 'updateStrategy', 'revisionHistoryLimit',"
            " 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
        ),
    ),
    (
        "Deployment",
        {},
        {
            "spec": {
                "selector": {"matchLabels": {"app": "y"}},
                "template": template(labels={"app": "y"}),
            }
        },
        "spec.selector",
        FIXED,
    ),
    (
        "Service",
        {"spec": {"clusterIP": "127.1.0.1", "clusterIPs": ["127.1.0.1"]}},
        {"spec": {"clusterIP": "127.1.0.2", "clusterIPs": ["127.1.0.2"]}},
        "spec.clusterIPs[0]",
        "may not change once set",
    ),
    (
        "Service",
        {"spec": {"clusterIP": "127.1.0.1", "clusterIPs": ["127.1.0.1"]}},
        {"spec": {"clusterIP": None, "clusterIPs": None}},
        "spec.clusterIPs[0]",
        "primary clusterIP can not be unset",
    ),
    (
        "ConfigMap",
        {"immutable": True},
        {"data": {"a": "c"}},
        "data",
        "Forbidden: field is immutable when `immutable` is set",
    ),
    (
        "ConfigMap",
        {"immutable": True},
        {"immutable": None},
        "immutable",
        "Forbidden: field is immutable when `immutable` is set",
    ),
    ("Secret", {}, {"type": "other"}, "type", FIXED),
    ("RoleBinding", {}, {"roleRef": {"name": "other"}}, "roleRef", "cannot change roleRef"),
    ("ControllerRevision", {}, {"data": {"a": 2}}, "data", FIXED),
    ("EndpointSlice", {}, {"addressType": "FQDN"}, "addressType", FIXED),
    ("PriorityClass", {}, {"value": 8}, "value", "Forbidden: may not be changed in an update."),
    (
        "StorageClass",
        {},
        {"provisioner": "q"},
        "provisioner",
        "Forbidden: updates to provisioner are forbidden.",
    ),
    (
        "PersistentVolumeClaim",
        {},
        {"spec": {"resources": {"requests": {"storage": "2Gi"}}}},
        "spec",
        '{\n-   "storage": "1Gi"\n+   "storage": "2Gi"\n   }\n  },\n  "VolumeName": "",\n',
    ),
    (
        "PersistentVolumeClaim",
        {"spec": {"volumeName": "v"}},
        {"spec": {"volumeName": "w"}},
        "spec",
        "Forbidden: spec is immutable after creation except resources.requests and",
    ),
    (
        "PersistentVolume",
        {},
        {"spec": {"hostPath": {"path": "/other"}}},
        "spec.persistentvolumesource",
        '  "HostPath": {\n-  "Path": "/",\n+  "Path": "/other",\n',
    ),
    ("PersistentVolume", {}, {"spec": {"volumeMode": "Block"}}, "volumeMode", FIXED),
    (
        "PersistentVolumeClaim",
        {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}},
        {"spec": {"resources": {"requests": {"storage": "1Mi"}}}},
        "spec.resources.requests.storage",
        "Forbidden: field can not be less than status.capacity",
    ),
]


@pytest.mark.parametrize(
    ("kind", "before", "change", "field", "text"), UPDATES, ids=lambda value: str(value)[:40]
)
def test_forbidden_updates(
    kind: str, before: dict[str, Any], change: dict[str, Any], field: str, text: str
) -> None:
    old = build(kind, before)
    new = merged(old, change)
    found = dict(faults(new, old))
    assert field in found
    assert text in found[field]


@pytest.mark.parametrize(
    ("kind", "before", "change"),
    [
        ("Job", {}, {"spec": {"parallelism": 3, "suspend": True, "ttlSecondsAfterFinished": 1}}),
        (
            "Job",
            {"spec": {"suspend": True}},
            {"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}},
        ),
        ("PersistentVolumeClaim", {}, {"spec": {"volumeName": "v"}}),
        (
            "PersistentVolumeClaim",
            {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}},
            {"spec": {"resources": {"requests": {"storage": "2Gi"}}}},
        ),
        (
            "Job",
            {"spec": {"completionMode": "Indexed", "completions": 2, "parallelism": 2}},
            {"spec": {"completions": 3, "parallelism": 3}},
        ),
        ("StatefulSet", {}, {"spec": {"replicas": 3, "minReadySeconds": 1}}),
        (
            "StatefulSet",
            {},
            {"spec": {"template": {"spec": {"containers": [CONTAINER | {"image": "other"}]}}}},
        ),
        ("Deployment", {}, {"spec": {"replicas": 0}}),
        ("Service", {}, {"spec": {"ports": [{"port": 81, "targetPort": 1, "protocol": "TCP"}]}}),
        ("ConfigMap", {}, {"data": {"a": "c"}, "immutable": True}),
        (
            "StatefulSet",
            {
                "spec": {
                    "volumeClaimTemplates": [
                        {"metadata": {"name": "d"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
                    ],
                    "template": {
                        "spec": {
                            "containers": [
                                CONTAINER | {"volumeMounts": [{"name": "d", "mountPath": "/d"}]}
                            ]
                        }
                    },
                }
            },
            {"spec": {"replicas": 2}},
        ),
    ],
)
def test_allowed_updates(kind: str, before: dict[str, Any], change: dict[str, Any]) -> None:
    old = build(kind, before)
    assert faults(merged(old, change), old) == []
