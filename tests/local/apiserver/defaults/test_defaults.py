"""Static defaults of the built-in kinds."""

from typing import Any

import pytest

from local.apiserver.strategies import default, default_after_uid
from traincrew.local.apiserver import schema
from traincrew.local.apiserver.values.codec import clone


def defaulted(api_version: str, kind: str, **content: Any) -> dict[str, Any]:
    group, _, version = api_version.rpartition("/")
    obj: dict[str, Any] = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}}
    obj |= clone(content)
    known = schema.load_builtin(group, version, kind)
    assert known.prune(obj) == []
    default(group, kind, obj)
    once = clone(obj)
    default(group, kind, obj)
    assert obj == once, "defaults applied twice change nothing"
    assert [fault for fault in known.validate(obj) if fault.reason != "FieldValueRequired"] == []
    return obj


CONTAINER = {"name": "a", "image": "busybox"}
FULL_CONTAINER = CONTAINER | {
    "imagePullPolicy": "Always",
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "resources": {},
}
POD_SPEC = {
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "terminationGracePeriodSeconds": 30,
}
TEMPLATE = {"spec": {"containers": [CONTAINER]}}
FULL_TEMPLATE = {"metadata": {}, "spec": POD_SPEC | {"containers": [FULL_CONTAINER]}}


def pod(**spec: Any) -> dict[str, Any]:
    obj = defaulted("v1", "Pod", spec={"containers": [CONTAINER]} | spec)
    found: dict[str, Any] = obj["spec"]
    return found


def test_pod() -> None:
    obj = defaulted("v1", "Pod", spec={"containers": [CONTAINER]})
    assert obj["spec"] == POD_SPEC | {"containers": [FULL_CONTAINER], "enableServiceLinks": True}
    assert "status" not in obj, "what is made with a pod is no default: the phase may be left out"


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("busybox", "Always"),
        ("busybox:latest", "Always"),
        ("busybox:1", "IfNotPresent"),
        ("localhost:5000/busybox", "Always"),
        ("localhost:5000/a/busybox:1", "IfNotPresent"),
        ("busybox@sha256:abc", "IfNotPresent"),
        ("busybox:latest@sha256:abc", "IfNotPresent"),
    ],
)
def test_image_pull_policy_follows_the_tag(image: str, policy: str) -> None:
    (container,) = pod(containers=[{"name": "a", "image": image}])["containers"]
    assert container["imagePullPolicy"] == policy


def test_containers_in_detail() -> None:
    container = CONTAINER | {
        "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}],
        "env": [
            {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "B", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        ],
        "livenessProbe": {"httpGet": {"port": 80}, "periodSeconds": 0},
        "readinessProbe": {"grpc": {"port": 1}, "timeoutSeconds": 5},
        "lifecycle": {"preStop": {"httpGet": {"port": 80}}},
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
    }
    (found,) = pod(containers=[container])["containers"]
    assert found["ports"] == [
        {"containerPort": 80, "protocol": "TCP"},
        {"containerPort": 53, "protocol": "UDP"},
    ]
    assert found["env"][0]["valueFrom"]["fieldRef"]["apiVersion"] == "v1"
    assert found["env"][1]["valueFrom"]["resourceFieldRef"]["divisor"] == "0"
    assert found["livenessProbe"] == {
        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    assert found["readinessProbe"]["grpc"] == {"port": 1, "service": ""}
    assert found["readinessProbe"]["timeoutSeconds"] == 5
    assert found["lifecycle"]["preStop"]["httpGet"]["path"] == "/"
    assert found["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}


def test_templates_get_no_default_requests() -> None:
    container = CONTAINER | {"resources": {"limits": {"cpu": "1"}}}
    obj = defaulted("v1", "PodTemplate", template={"spec": {"containers": [container]}})
    assert "requests" not in obj["template"]["spec"]["containers"][0]["resources"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({}, {"emptyDir": {}}),
        ({"secret": {"secretName": "s"}}, {"secret": {"secretName": "s", "defaultMode": 420}}),
        ({"configMap": {"name": "c"}}, {"configMap": {"name": "c", "defaultMode": 420}}),
        (
            {"configMap": {"name": "c", "defaultMode": 0}},
            {"configMap": {"name": "c", "defaultMode": 0}},
        ),
        ({"hostPath": {"path": "/"}}, {"hostPath": {"path": "/", "type": ""}}),
        (
            {"downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            {
                "downwardAPI": {
                    "defaultMode": 420,
                    "items": [
                        {
                            "path": "a",
                            "fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v1"},
                        }
                    ],
                }
            },
        ),
        (
            {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
            {
                "projected": {
                    "defaultMode": 420,
                    "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}],
                }
            },
        ),
    ],
)
def test_volumes(source: dict[str, Any], expected: dict[str, Any]) -> None:
    assert pod(volumes=[{"name": "v"} | source])["volumes"] == [{"name": "v"} | expected]


def test_host_network_takes_the_ports_of_the_host() -> None:
    container = CONTAINER | {"ports": [{"containerPort": 80}]}
    spec = pod(hostNetwork=True, containers=[container])
    assert spec["containers"][0]["ports"][0]["hostPort"] == 80


def test_the_deprecated_field_of_the_service_account() -> None:
    assert pod(serviceAccount="s")["serviceAccountName"] == "s"
    assert pod(serviceAccountName="s")["serviceAccount"] == "s"


def test_job() -> None:
    obj = defaulted("batch/v1", "Job", spec={"template": TEMPLATE})
    assert obj["spec"] == {
        "completions": 1,
        "parallelism": 1,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "suspend": False,
        "manualSelector": False,
        "podReplacementPolicy": "TerminatingOrFailed",
        "template": FULL_TEMPLATE,
    }
    assert "completions" not in defaulted("batch/v1", "Job", spec={"parallelism": 3})["spec"]
    per_index = {"backoffLimitPerIndex": 1, "completionMode": "Indexed", "completions": 2}
    assert defaulted("batch/v1", "Job", spec=per_index)["spec"]["backoffLimit"] == 2**31 - 1
    policy = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
    spec = defaulted("batch/v1", "Job", spec={"podFailurePolicy": policy})["spec"]
    assert spec["podReplacementPolicy"] == "Failed"
    assert spec["podFailurePolicy"]["rules"][0]["onPodConditions"][0]["status"] == "True"


def test_a_job_gets_the_labels_of_its_template() -> None:
    template = TEMPLATE | {"metadata": {"labels": {"a": "b"}}}
    obj = defaulted("batch/v1", "Job", spec={"template": template})
    assert obj["metadata"]["labels"] == {"a": "b"}


def test_a_job_selects_by_its_uid() -> None:
    obj = defaulted("batch/v1", "Job", spec={"template": TEMPLATE})
    obj["metadata"]["uid"] = "u"
    default_after_uid("batch", "Job", obj)
    assert obj["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}
    assert obj["spec"]["template"]["metadata"]["labels"] == {
        "job-name": "x",
        "batch.kubernetes.io/job-name": "x",
        "controller-uid": "u",
        "batch.kubernetes.io/controller-uid": "u",
    }
    manual = {"spec": {"manualSelector": True, "template": {}}, "metadata": {"uid": "u"}}
    before = clone(manual)
    default_after_uid("batch", "Job", manual)
    assert manual == before


def test_stateful_set() -> None:
    claim = {"metadata": {"name": "d"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    obj = defaulted(
        "apps/v1",
        "StatefulSet",
        spec={
            "selector": {"matchLabels": {"a": "b"}},
            "serviceName": "s",
            "template": TEMPLATE,
            "volumeClaimTemplates": [claim],
        },
    )
    assert obj["spec"] == {
        "selector": {"matchLabels": {"a": "b"}},
        "serviceName": "s",
        "replicas": 1,
        "revisionHistoryLimit": 10,
        "podManagementPolicy": "OrderedReady",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        "template": FULL_TEMPLATE,
        "volumeClaimTemplates": [
            claim
            | {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "volumeMode": "Filesystem",
                    "resources": {},
                },
                "status": {"phase": "Pending"},
            }
        ],
    }


def test_deployment() -> None:
    obj = defaulted("apps/v1", "Deployment", spec={"selector": {}, "template": TEMPLATE})
    assert obj["spec"] == {
        "selector": {},
        "replicas": 1,
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
        },
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
        "template": FULL_TEMPLATE,
    }
    recreate = {"selector": {}, "strategy": {"type": "Recreate"}, "replicas": 0}
    spec = defaulted("apps/v1", "Deployment", spec=recreate)["spec"]
    assert spec["strategy"] == {"type": "Recreate"}
    assert spec["replicas"] == 0


def test_replica_set_daemon_set_and_replication_controller() -> None:
    assert defaulted("apps/v1", "ReplicaSet", spec={"selector": {}})["spec"]["replicas"] == 1
    spec = defaulted("apps/v1", "DaemonSet", spec={"selector": {}})["spec"]
    assert spec["updateStrategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0},
    }
    template = TEMPLATE | {"metadata": {"labels": {"a": "b"}}}
    obj = defaulted("v1", "ReplicationController", spec={"template": template})
    assert obj["spec"]["selector"] == obj["metadata"]["labels"] == {"a": "b"}


def test_cron_job() -> None:
    spec = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": TEMPLATE}}}
    obj = defaulted("batch/v1", "CronJob", spec=spec)
    assert obj["spec"]["concurrencyPolicy"] == "Allow"
    assert obj["spec"]["successfulJobsHistoryLimit"] == 3
    assert obj["spec"]["jobTemplate"] == {"metadata": {}, "spec": {"template": FULL_TEMPLATE}}


def service(**spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = defaulted("v1", "Service", spec=spec)["spec"]
    return found


def test_service() -> None:
    assert service(ports=[{"port": 80}, {"port": 81, "targetPort": "http"}]) == {
        "ports": [
            {"port": 80, "targetPort": 80, "protocol": "TCP"},
            {"port": 81, "targetPort": "http", "protocol": "TCP"},
        ],
        "type": "ClusterIP",
        "sessionAffinity": "None",
        "internalTrafficPolicy": "Cluster",
    }
    assert service(type="NodePort")["externalTrafficPolicy"] == "Cluster"
    assert service(type="LoadBalancer")["allocateLoadBalancerNodePorts"] is True
    assert service(type="ExternalName", externalName="a.b") == {
        "type": "ExternalName",
        "externalName": "a.b",
        "sessionAffinity": "None",
    }
    affinity = service(sessionAffinity="ClientIP")["sessionAffinityConfig"]
    assert affinity == {"clientIP": {"timeoutSeconds": 10800}}


def test_secret_texts_become_data() -> None:
    obj = defaulted("v1", "Secret", data={"a": "YQ=="}, stringData={"a": "é", "b": ""})
    assert obj["type"] == "Opaque"
    assert obj["data"] == {"a": "w6k=", "b": ""}
    assert "stringData" not in obj


def test_namespace() -> None:
    obj = defaulted("v1", "Namespace")
    assert obj["metadata"]["labels"] == {"kubernetes.io/metadata.name": "x"}
    assert obj["spec"] == {"finalizers": ["kubernetes"]}
    assert obj["status"] == {"phase": "Active"}


def test_storage() -> None:
    claim = defaulted("v1", "PersistentVolumeClaim", spec={})
    assert claim["spec"]["volumeMode"] == "Filesystem"
    assert claim["status"] == {"phase": "Pending"}
    volume = defaulted("v1", "PersistentVolume", spec={"hostPath": {"path": "/"}})
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert volume["spec"]["hostPath"]["type"] == ""
    assert defaulted("storage.k8s.io/v1", "StorageClass")["reclaimPolicy"] == "Delete"


def test_role_binding() -> None:
    obj = defaulted(
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        roleRef={"kind": "Role", "name": "r"},
        subjects=[{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s"}],
    )
    assert obj["roleRef"]["apiGroup"] == "rbac.authorization.k8s.io"
    assert obj["subjects"] == [
        {"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"},
        {"kind": "ServiceAccount", "name": "s"},
    ]


def test_other_kinds() -> None:
    names = {"kind": "Widget", "plural": "widgets"}
    definition = defaulted(
        "apiextensions.k8s.io/v1", "CustomResourceDefinition", spec={"names": names}
    )
    assert definition["spec"]["names"]["singular"] == "widget"
    assert definition["spec"]["names"]["listKind"] == "WidgetList"
    assert definition["spec"]["conversion"] == {"strategy": "None"}
    policy = defaulted("networking.k8s.io/v1", "NetworkPolicy", spec={"egress": [{}]})
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    slice_ = defaulted("discovery.k8s.io/v1", "EndpointSlice", ports=[{"port": 80}])
    assert slice_["ports"] == [{"name": "", "port": 80, "protocol": "TCP"}]
    slice_ = defaulted("discovery.k8s.io/v1", "EndpointSlice", endpoints=[{"addresses": ["a"]}])
    assert slice_["endpoints"] == [{"addresses": ["a"], "conditions": {}}]
    limits = defaulted(
        "v1", "LimitRange", spec={"limits": [{"type": "Container", "max": {"cpu": 1}}]}
    )
    assert limits["spec"]["limits"][0]["defaultRequest"] == {"cpu": 1}


@pytest.mark.parametrize("spec", [None, 1, "x", [], {"template": 1}, {"containers": {"a": 1}}])
@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("v1", "Pod"),
        ("v1", "Service"),
        ("v1", "Namespace"),
        ("batch/v1", "Job"),
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "Deployment"),
        ("apps/v1", "DaemonSet"),
        ("networking.k8s.io/v1", "NetworkPolicy"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ],
)
def test_defaults_leave_malformed_objects_alone(api_version: str, kind: str, spec: Any) -> None:
    group = api_version.rpartition("/")[0]
    obj = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "spec": spec}
    default(group, kind, obj)
    default_after_uid(group, kind, obj)
