"""The built-in resources.

Kinds without a controller here (Ingress, NetworkPolicy, CronJob and so on) are stored and
served as well, so that manifests with such objects can be created, listed and deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.values import autoscaler_versions

from . import event_versions
from .registry import ResourceType, ScalePaths, Subresource

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["builtin_resources"]

_PROXY = ("create", "delete", "get", "patch", "update")
_POD_SUBRESOURCES = (
    Subresource("attach", "PodAttachOptions", ("create", "get")),
    Subresource("binding", "Binding", ("create",)),
    Subresource("ephemeralcontainers", "Pod"),
    Subresource("eviction", "Eviction", ("create",), "policy", "v1"),
    Subresource("exec", "PodExecOptions", ("create", "get")),
    Subresource("log", "Pod", ("get",)),
    Subresource("portforward", "PodPortForwardOptions", ("create", "get")),
    Subresource("proxy", "PodProxyOptions", _PROXY),
)
_REPLICAS = ScalePaths(selector=".spec.selector")
_REVIEW: dict[str, Any] = {"namespaced": False, "verbs": ("create",)}


def _core() -> Iterator[ResourceType]:
    def core(plural: str, kind: str, *short: str, **more: Any) -> ResourceType:
        return ResourceType("", "v1", plural, kind, short_names=short, **more)

    yield core("bindings", "Binding", verbs=("create",))
    yield core("configmaps", "ConfigMap", "cm", significant_empty=("binaryData",))
    yield core("endpoints", "Endpoints", "ep", create_on_update=True)
    yield core("events", "Event", "ev", create_on_update=True)
    yield core("limitranges", "LimitRange", "limits", create_on_update=True)
    yield core(
        "namespaces",
        "Namespace",
        "ns",
        namespaced=False,
        status=True,
        verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
        subresources=(Subresource("finalize", "Namespace", ("update",)),),
    )
    yield core("nodes", "Node", "no", namespaced=False, status=True)
    yield core(
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        "pvc",
        status=True,
        returns_deleted=True,
    )
    yield core(
        "persistentvolumes",
        "PersistentVolume",
        "pv",
        namespaced=False,
        status=True,
        returns_deleted=True,
    )
    yield core(
        "pods",
        "Pod",
        "po",
        categories=("all",),
        status=True,
        generation="spec",
        returns_deleted=True,
        subresources=_POD_SUBRESOURCES,
    )
    yield core("podtemplates", "PodTemplate", generation="content", returns_deleted=True)
    yield core(
        "replicationcontrollers",
        "ReplicationController",
        "rc",
        categories=("all",),
        status=True,
        generation="spec",
        orphan_by_default=True,
        scale=ScalePaths(selector=".spec.selector"),
    )
    yield core("resourcequotas", "ResourceQuota", "quota", status=True, returns_deleted=True)
    yield core("secrets", "Secret", significant_empty=("data",))
    yield core(
        "serviceaccounts",
        "ServiceAccount",
        "sa",
        returns_deleted=True,
        subresources=(
            Subresource("token", "TokenRequest", ("create",), "authentication.k8s.io", "v1"),
        ),
    )
    yield core(
        "services",
        "Service",
        "svc",
        categories=("all",),
        status=True,
        create_on_update=True,
        returns_deleted=True,
        subresources=(Subresource("proxy", "ServiceProxyOptions", _PROXY),),
    )


def _workloads() -> Iterator[ResourceType]:
    def apps(plural: str, kind: str, *short: str, **more: Any) -> ResourceType:
        options: dict[str, Any] = {"status": True, "generation": "spec", "categories": ("all",)}
        return ResourceType("apps", "v1", plural, kind, short_names=short, **options | more)

    yield apps(
        "controllerrevisions",
        "ControllerRevision",
        status=False,
        generation=None,
        categories=(),
    )
    yield apps("daemonsets", "DaemonSet", "ds")
    # Annotations count, because they are copied to the Deployment's ReplicaSets.
    yield apps(
        "deployments", "Deployment", "deploy", scale=_REPLICAS, generation="spec and annotations"
    )
    yield apps("replicasets", "ReplicaSet", "rs", scale=_REPLICAS)
    yield apps("statefulsets", "StatefulSet", "sts", scale=_REPLICAS)
    autoscaler = ("horizontalpodautoscalers", "HorizontalPodAutoscaler")
    scaling: dict[str, Any] = {"short_names": ("hpa",), "categories": ("all",), "status": True}
    yield ResourceType("autoscaling", "v2", *autoscaler, **scaling)
    yield ResourceType(
        "autoscaling",
        "v1",
        *autoscaler,
        storage_version="v2",
        from_storage=autoscaler_versions.from_v2,
        to_storage=autoscaler_versions.to_v2,
        **scaling,
    )
    batch: dict[str, Any] = {"status": True, "generation": "spec", "categories": ("all",)}
    yield ResourceType("batch", "v1", "cronjobs", "CronJob", short_names=("cj",), **batch)
    yield ResourceType("batch", "v1", "jobs", "Job", orphan_by_default=True, **batch)


def _cluster() -> Iterator[ResourceType]:
    def of(group: str, plural: str, kind: str, *short: str, **more: Any) -> ResourceType:
        return ResourceType(group, "v1", plural, kind, short_names=short, **more)

    registration, extensions = "admissionregistration.k8s.io", "apiextensions.k8s.io"
    definitions = ("api-extensions",)
    versioned: dict[str, Any] = {"unconditional_update": False}
    yield of(
        registration,
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        namespaced=False,
        categories=definitions,
        generation="content",
        **versioned,
    )
    yield of(
        registration,
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        namespaced=False,
        categories=definitions,
        generation="content",
        **versioned,
    )
    yield of(
        extensions,
        "customresourcedefinitions",
        "CustomResourceDefinition",
        "crd",
        "crds",
        namespaced=False,
        categories=definitions,
        status=True,
        generation="spec",
        **versioned,
    )
    yield of("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview", **_REVIEW)
    yield of("authentication.k8s.io", "tokenreviews", "TokenReview", **_REVIEW)
    for plural, kind in (
        ("selfsubjectaccessreviews", "SelfSubjectAccessReview"),
        ("selfsubjectrulesreviews", "SelfSubjectRulesReview"),
        ("subjectaccessreviews", "SubjectAccessReview"),
    ):
        yield of("authorization.k8s.io", plural, kind, **_REVIEW)
    yield of(
        "authorization.k8s.io",
        "localsubjectaccessreviews",
        "LocalSubjectAccessReview",
        verbs=("create",),
    )
    yield of("coordination.k8s.io", "leases", "Lease", create_on_update=True, **versioned)
    yield of("discovery.k8s.io", "endpointslices", "EndpointSlice", generation="content")
    yield of(
        "events.k8s.io",
        "events",
        "Event",
        "ev",
        create_on_update=True,
        identifier="events",
        from_storage=event_versions.from_core,
        to_storage=event_versions.to_core,
    )
    networking = "networking.k8s.io"
    yield of(networking, "ingressclasses", "IngressClass", namespaced=False, generation="spec")
    yield of(networking, "ingresses", "Ingress", "ing", status=True, generation="spec")
    yield of(
        networking,
        "networkpolicies",
        "NetworkPolicy",
        "netpol",
        generation="spec",
        significant_empty=("spec",),
    )
    yield of(
        "node.k8s.io",
        "runtimeclasses",
        "RuntimeClass",
        namespaced=False,
        create_on_update=True,
        **versioned,
    )
    yield of(
        "policy",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        "pdb",
        status=True,
        generation="spec",
        **versioned,
    )
    rbac = "rbac.authorization.k8s.io"
    for plural, kind, namespaced in (
        ("clusterrolebindings", "ClusterRoleBinding", False),
        ("clusterroles", "ClusterRole", False),
        ("rolebindings", "RoleBinding", True),
        ("roles", "Role", True),
    ):
        yield of(rbac, plural, kind, namespaced=namespaced, create_on_update=True)
    yield of(
        "scheduling.k8s.io",
        "priorityclasses",
        "PriorityClass",
        "pc",
        namespaced=False,
        generation="content",
    )
    yield of("storage.k8s.io", "storageclasses", "StorageClass", "sc", namespaced=False)


def builtin_resources() -> list[ResourceType]:
    """Return all built-in resources, in the order in which discovery lists their groups."""
    return [*_core(), *_workloads(), *_cluster()]
