"""Semantic rules of the built-in kinds, beyond their schemas.

One function per kind; the messages are upstream's, which people know and search for.
Objects are defaulted and have the right types: `schema` has checked them before.
"""

from __future__ import annotations

from collections.abc import Callable

from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.causes import Cause
from traincrew.local.apiserver.values.documents import Document
from traincrew.local.apiserver.values.names import label_fault, subdomain_fault

from . import (
    autoscaling,
    core,
    jobs,
    network,
    policy,
    quota,
    storage,
    webhooks,
    workloads,
)
from . import pod as pods
from .crd import definition
from .meta import object_meta, object_meta_update, path_segment_fault

__all__ = ["validate"]

_Rule = Callable[[list[Cause], Document, Document | None], None]

_RBAC = "rbac.authorization.k8s.io"


def _pod(found: list[Cause], obj: Document, old: Document | None) -> None:
    pods.pod(found, obj, created=old is None)
    if old is not None:
        pods.pod_update(found, obj, old)


_RULES: dict[tuple[str, str], _Rule] = {
    ("", "Binding"): core.binding,
    ("", "ConfigMap"): core.config_map,
    ("", "Endpoints"): core.endpoints,
    ("", "Event"): core.event,
    ("", "LimitRange"): quota.limit_range,
    ("", "Namespace"): core.namespace,
    ("", "Node"): core.node,
    ("", "PersistentVolume"): storage.persistent_volume,
    ("", "PersistentVolumeClaim"): storage.persistent_volume_claim,
    ("", "Pod"): _pod,
    ("", "PodTemplate"): workloads.template_object,
    ("", "ReplicationController"): workloads.replication_controller,
    ("", "ResourceQuota"): quota.resource_quota,
    ("", "Secret"): core.secret,
    ("", "Service"): network.service,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): webhooks.configuration,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): webhooks.configuration,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): definition,
    ("apps", "ControllerRevision"): workloads.controller_revision,
    ("apps", "DaemonSet"): workloads.daemon_set,
    ("apps", "Deployment"): workloads.deployment,
    ("apps", "ReplicaSet"): workloads.replica_set,
    ("apps", "StatefulSet"): workloads.stateful_set,
    ("autoscaling", "HorizontalPodAutoscaler"): autoscaling.autoscaler,
    ("batch", "CronJob"): jobs.cron_job,
    ("batch", "Job"): jobs.job,
    ("coordination.k8s.io", "Lease"): policy.lease,
    ("discovery.k8s.io", "EndpointSlice"): policy.endpoint_slice,
    ("networking.k8s.io", "Ingress"): network.ingress,
    ("networking.k8s.io", "NetworkPolicy"): network.network_policy,
    ("policy", "PodDisruptionBudget"): policy.disruption_budget,
    (_RBAC, "ClusterRole"): policy.role,
    (_RBAC, "ClusterRoleBinding"): policy.role_binding,
    (_RBAC, "Role"): policy.role,
    (_RBAC, "RoleBinding"): policy.role_binding,
    ("scheduling.k8s.io", "PriorityClass"): policy.priority_class,
    ("storage.k8s.io", "StorageClass"): storage.storage_class,
}

_NAMES: dict[tuple[str, str], Callable[[str], str]] = {
    ("", "Namespace"): label_fault,
    ("", "Service"): label_fault,
    ("apps", "StatefulSet"): label_fault,
    ("", "Event"): path_segment_fault,
    **{
        (_RBAC, kind): path_segment_fault
        for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    },
}

# Kinds that only occur in requests: no name, no stored metadata.
_TRANSIENT = ("authentication.k8s.io", "authorization.k8s.io")
_NAMELESS = {
    ("", "Binding"),
    ("", "DeleteOptions"),
    ("autoscaling", "Scale"),
    ("policy", "Eviction"),
}


def validate(group: str, kind: str, obj: Document, old: Document | None = None) -> list[Cause]:
    """Validate an object.

    Args:
        group: API group, empty for the core group.
        kind: of the object.
        obj: the object, defaulted and valid by its schema.
        old: the stored object when this is an update.
    """
    found = why.Causes()
    key = (group, kind)
    if group not in _TRANSIENT and key not in _NAMELESS:
        object_meta(found, obj["metadata"], _NAMES.get(key, subdomain_fault))
        if old is not None:
            object_meta_update(found, obj["metadata"], old["metadata"])
    rule = _RULES.get(key)
    if rule is not None:
        rule(found, obj, old)
    return found
