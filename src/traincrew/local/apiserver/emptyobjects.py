"""What an object looks like before anything is written into it.

Ownership of a new object is what differs from an empty one. A Go struct that is not a pointer is
always there, so nobody comes to own ``f:spec`` itself; lists and pointers without ``omitempty`` are
there as null. Custom resources have no such fields, their ``f:spec`` is owned.
"""

from __future__ import annotations

from typing import Any

__all__ = ["empty_object"]

Document = dict[str, Any]
_TEMPLATE: Document = {"metadata": {}, "spec": {"containers": None}}

_EMPTY: dict[tuple[str, str], Document] = {
    ("", "Binding"): {"target": {}},
    ("", "Event"): {"involvedObject": {}, "source": {}},
    ("", "LimitRange"): {"spec": {"limits": None}},
    ("", "Namespace"): {"spec": {}, "status": {}},
    ("", "Node"): {
        "spec": {},
        "status": {"daemonEndpoints": {"kubeletEndpoint": {}}, "nodeInfo": {}},
    },
    ("", "PersistentVolume"): {"spec": {}, "status": {}},
    ("", "PersistentVolumeClaim"): {"spec": {"resources": {}}, "status": {}},
    ("", "Pod"): {"spec": {"containers": None}, "status": {}},
    ("", "PodTemplate"): {"template": _TEMPLATE},
    ("", "ReplicationController"): {"spec": {}, "status": {}},
    ("", "ResourceQuota"): {"spec": {}, "status": {}},
    ("", "Service"): {"spec": {}, "status": {"loadBalancer": {}}},
    ("apps", "ControllerRevision"): {"data": None},
    ("apps", "DaemonSet"): {
        "spec": {"selector": None, "template": _TEMPLATE, "updateStrategy": {}},
        "status": {},
    },
    ("apps", "Deployment"): {
        "spec": {"selector": None, "template": _TEMPLATE, "strategy": {}},
        "status": {},
    },
    ("apps", "ReplicaSet"): {"spec": {"selector": None, "template": _TEMPLATE}, "status": {}},
    ("apps", "StatefulSet"): {
        "spec": {"selector": None, "template": _TEMPLATE, "updateStrategy": {}},
        "status": {},
    },
    ("autoscaling", "HorizontalPodAutoscaler"): {"spec": {"scaleTargetRef": {}}, "status": {}},
    ("batch", "CronJob"): {
        "spec": {"jobTemplate": {"metadata": {}, "spec": {"template": _TEMPLATE}}},
        "status": {},
    },
    ("batch", "Job"): {"spec": {"template": _TEMPLATE}, "status": {}},
    ("coordination.k8s.io", "Lease"): {"spec": {}},
    ("discovery.k8s.io", "EndpointSlice"): {"endpoints": None, "ports": None},
    ("events.k8s.io", "Event"): {"deprecatedSource": {}, "regarding": {}},
    ("networking.k8s.io", "Ingress"): {"spec": {}, "status": {"loadBalancer": {}}},
    ("networking.k8s.io", "IngressClass"): {"spec": {}},
    ("networking.k8s.io", "NetworkPolicy"): {"spec": {"podSelector": {}}},
    ("policy", "PodDisruptionBudget"): {"spec": {}, "status": {}},
    ("rbac.authorization.k8s.io", "ClusterRole"): {"rules": None},
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): {"roleRef": {}},
    ("rbac.authorization.k8s.io", "Role"): {"rules": None},
    ("rbac.authorization.k8s.io", "RoleBinding"): {"roleRef": {}},
    ("apiextensions.k8s.io", "CustomResourceDefinition"): {
        "spec": {"names": {}, "versions": None},
        "status": {"acceptedNames": {}, "conditions": None, "storedVersions": None},
    },
}


def empty_object(group: str, kind: str) -> Document:
    """The empty object of a kind, without apiVersion, kind and metadata. Never change it."""
    return _EMPTY.get((group, kind), {})
