"""Static defaults of the built-in kinds: what upstream fills in when it decodes an object.

One function per kind, after ``pkg/apis/*/v1/defaults.go``. The static defaults depend on nothing
but the object; applying them twice changes nothing.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from traincrew.local.apiserver.values.codec import clone
from traincrew.local.apiserver.values.documents import field, items

from . import workloads
from .pod import claim, pod, set_phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.local.apiserver.values.documents import Document

__all__ = ["after_uid", "apply", "externally_accessible"]

_RBAC = "rbac.authorization.k8s.io"


def apply(group: str, kind: str, obj: Document) -> None:
    """Fill in the defaults of a built-in kind, in place."""
    function = _BY_KIND.get((group, kind))
    if function is not None:
        function(obj)


_JOB_NAME = ("job-name", "batch.kubernetes.io/job-name")
_JOB_UID = ("controller-uid", "batch.kubernetes.io/controller-uid")


def after_uid(group: str, kind: str, obj: Document) -> None:
    """Fill in the defaults that need the name and uid of a new object, in place.

    They are the selector and labels of a Job, unless it has ``manualSelector: true``.
    """
    if (group, kind) != ("batch", "Job") or type(obj.get("spec")) is not dict:
        return
    spec = obj["spec"]
    if spec.get("manualSelector") is True or type(spec.get("template")) is not dict:
        return
    metadata = spec["template"].setdefault("metadata", {})
    if type(metadata) is not dict:
        return
    labels = metadata["labels"] = metadata.get("labels") or {}
    uid, name = obj["metadata"].get("uid", ""), obj["metadata"].get("name", "")
    for key in _JOB_NAME:
        labels.setdefault(key, name)
    for key in _JOB_UID:
        labels.setdefault(key, uid)
    if not obj["metadata"].get("labels"):
        obj["metadata"]["labels"] = labels
    selector = spec["selector"] = spec.get("selector") or {}
    wanted = selector["matchLabels"] = selector.get("matchLabels") or {}
    wanted.setdefault(_JOB_UID[1], uid)


# --- core ---------------------------------------------------------------------------------------


def _persistent_volume(obj: Document) -> None:
    spec = obj.get("spec")
    if type(spec) is dict:
        spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
        spec.setdefault("volumeMode", "Filesystem")
        if type(spec.get("hostPath")) is dict:
            spec["hostPath"].setdefault("type", "")
    set_phase(obj, "Pending")


def _service(obj: Document) -> None:
    spec = obj.get("spec")
    if type(spec) is not dict:
        return
    if not spec.get("sessionAffinity"):
        spec["sessionAffinity"] = "None"
    timed = "timeoutSeconds" in field(spec, "sessionAffinityConfig", "clientIP")
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP" and not timed:
        spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}
    kind = spec["type"] = spec.get("type") or "ClusterIP"
    for port in items(spec, "ports"):
        if not port.get("protocol"):
            port["protocol"] = "TCP"
        if not port.get("targetPort") and "port" in port:
            port["targetPort"] = port["port"]
    if externally_accessible(spec) and not spec.get("externalTrafficPolicy"):
        spec["externalTrafficPolicy"] = "Cluster"
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    if kind != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    status = obj.setdefault("status", {})
    if type(status) is dict:
        status.setdefault("loadBalancer", {})


def externally_accessible(spec: Document) -> bool:
    """Return whether a Service can be reached from outside the cluster."""
    kind = spec.get("type", "ClusterIP")
    return kind in ("LoadBalancer", "NodePort") or (
        kind == "ClusterIP" and bool(spec.get("externalIPs"))
    )


def _secret(obj: Document) -> None:
    if not obj.get("type"):
        obj["type"] = "Opaque"
    texts = obj.get("stringData")
    if type(texts) is not dict or not all(type(text) is str for text in texts.values()):
        return
    # Write-only: the API only returns data.
    del obj["stringData"]
    data = obj.setdefault("data", {})
    if type(data) is dict:
        for key, text in texts.items():
            data[key] = base64.b64encode(text.encode()).decode()


def _endpoints(obj: Document) -> None:
    for subset in items(obj, "subsets"):
        for port in items(subset, "ports"):
            if not port.get("protocol"):
                port["protocol"] = "TCP"


def _endpoint_slice(obj: Document) -> None:
    for endpoint in items(obj, "endpoints"):
        endpoint.setdefault("conditions", {})
    for port in items(obj, "ports"):
        port.setdefault("name", "")
        if not port.get("protocol"):
            port["protocol"] = "TCP"


def _namespace(obj: Document) -> None:
    metadata = obj.get("metadata")
    if type(metadata) is dict and metadata.get("name"):
        labels = metadata["labels"] = metadata.get("labels") or {}
        if type(labels) is dict:
            labels["kubernetes.io/metadata.name"] = metadata["name"]
    spec = obj.setdefault("spec", {})
    if type(spec) is dict and "deletionTimestamp" not in field(obj, "metadata"):
        spec.setdefault("finalizers", ["kubernetes"])
    set_phase(obj, "Active")


def _node(obj: Document) -> None:
    status = obj.get("status")
    if type(status) is dict and status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])


def _limit_range(obj: Document) -> None:
    for limit in items(obj, "spec", "limits"):
        if limit.get("type") != "Container":
            continue
        largest, smallest = field(limit, "max"), field(limit, "min")
        default = {**largest, **field(limit, "default")}
        request = {**smallest, **default, **field(limit, "defaultRequest")}
        if default:
            limit["default"] = default
        if request:
            limit["defaultRequest"] = request


# --- other groups -------------------------------------------------------------------------------


def _binding(obj: Document) -> None:
    reference = obj.get("roleRef")
    if type(reference) is dict and not reference.get("apiGroup"):
        reference["apiGroup"] = _RBAC
    for subject in items(obj, "subjects"):
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = _RBAC


def _network_policy(obj: Document) -> None:
    spec = obj.get("spec")
    if type(spec) is not dict:
        return
    for direction in ("ingress", "egress"):
        for rule in items(spec, direction):
            for port in items(rule, "ports"):
                port.setdefault("protocol", "TCP")
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def _autoscaler(obj: Document) -> None:
    spec = obj.get("spec")
    if type(spec) is dict:
        spec.setdefault("minReplicas", 1)
        if obj.get("apiVersion") == "autoscaling/v1":
            return  # version 1 has no fields for the rest
        if not spec.get("metrics"):
            spec["metrics"] = [
                {
                    "type": "Resource",
                    "resource": {
                        "name": "cpu",
                        "target": {"type": "Utilization", "averageUtilization": 80},
                    },
                }
            ]

    behavior = field(obj, "spec").get("behavior")
    if type(behavior) is dict:
        for direction, rules in _SCALING.items():
            behavior[direction] = clone(rules) | (behavior.get(direction) or {})


_SCALING: Document = {
    "scaleUp": {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [
            {"type": "Pods", "value": 4, "periodSeconds": 15},
            {"type": "Percent", "value": 100, "periodSeconds": 15},
        ],
    },
    "scaleDown": {
        "selectPolicy": "Max",
        "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
    },
}


def _priority_class(obj: Document) -> None:
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _storage_class(obj: Document) -> None:
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")


def _webhooks(obj: Document) -> None:
    for webhook in items(obj, "webhooks"):
        webhook.setdefault("failurePolicy", "Fail")
        webhook.setdefault("matchPolicy", "Equivalent")
        webhook.setdefault("namespaceSelector", {})
        webhook.setdefault("objectSelector", {})
        webhook.setdefault("timeoutSeconds", 10)
        if obj.get("kind") == "MutatingWebhookConfiguration":
            webhook.setdefault("reinvocationPolicy", "Never")
        for rule in items(webhook, "rules"):
            rule.setdefault("scope", "*")
        service = field(webhook, "clientConfig").get("service")
        if type(service) is dict:
            service.setdefault("port", 443)


def _definition(obj: Document) -> None:
    spec = obj.get("spec")
    if type(spec) is not dict:
        return
    names = spec.get("names")
    if type(names) is dict and type(names.get("kind")) is str:
        if not names.get("singular"):
            names["singular"] = names["kind"].lower()
        if not names.get("listKind"):
            names["listKind"] = names["kind"] + "List"
    conversion = spec.setdefault("conversion", {})
    if type(conversion) is dict:
        conversion.setdefault("strategy", "None")
        service = field(conversion, "webhook", "clientConfig").get("service")
        if type(service) is dict:
            service.setdefault("port", 443)


def _token_request(obj: Document) -> None:
    spec = obj.setdefault("spec", {})
    if type(spec) is dict:
        spec.setdefault("expirationSeconds", 3600)


_BY_KIND: dict[tuple[str, str], Callable[[Document], None]] = {
    **workloads.BY_KIND,
    ("", "Endpoints"): _endpoints,
    ("", "LimitRange"): _limit_range,
    ("", "Namespace"): _namespace,
    ("", "Node"): _node,
    ("", "PersistentVolume"): _persistent_volume,
    ("", "PersistentVolumeClaim"): claim,
    ("", "Pod"): pod,
    ("", "Secret"): _secret,
    ("", "Service"): _service,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _webhooks,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _webhooks,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
    ("authentication.k8s.io", "TokenRequest"): _token_request,
    ("autoscaling", "HorizontalPodAutoscaler"): _autoscaler,
    ("discovery.k8s.io", "EndpointSlice"): _endpoint_slice,
    ("networking.k8s.io", "NetworkPolicy"): _network_policy,
    (_RBAC, "ClusterRoleBinding"): _binding,
    (_RBAC, "RoleBinding"): _binding,
    ("scheduling.k8s.io", "PriorityClass"): _priority_class,
    ("storage.k8s.io", "StorageClass"): _storage_class,
}
