"""The roles and bindings that every cluster has and that manifests refer to. Pure.

Rules: ``plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go`` of Kubernetes. Those of
components that are not here (kubelets, kube-scheduler, kube-proxy and the like) are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.local.apiserver.values.documents import Document

__all__ = ["bootstrap_bindings", "bootstrap_namespaced_roles", "bootstrap_roles"]

_GROUP = "rbac.authorization.k8s.io"
_READ = "get list watch"
_WRITE = "create delete deletecollection patch update"
_ALL = "create delete deletecollection get list patch update watch"

# Each line of a role: verbs; groups ("core" is the group without a name); resources.
_Rules = tuple[tuple[str, str, str], ...]

_VIEW: _Rules = (
    (
        _READ,
        "core",
        (
            "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods "
            "replicationcontrollers replicationcontrollers/scale serviceaccounts services "
            "services/status"
        ),
    ),
    (
        _READ,
        "core",
        (
            "bindings limitranges namespaces/status pods/log pods/status "
            "replicationcontrollers/status resourcequotas resourcequotas/status"
        ),
    ),
    (_READ, "core", "namespaces"),
    (_READ, "core events.k8s.io", "events"),
    (_READ, "discovery.k8s.io", "endpointslices"),
    (
        _READ,
        "apps",
        (
            "controllerrevisions daemonsets daemonsets/status deployments deployments/scale "
            "deployments/status replicasets replicasets/scale replicasets/status statefulsets "
            "statefulsets/scale statefulsets/status"
        ),
    ),
    (_READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
    (_READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
    (
        _READ,
        "extensions",
        (
            "daemonsets daemonsets/status deployments deployments/scale deployments/status "
            "ingresses ingresses/status networkpolicies replicasets replicasets/scale "
            "replicasets/status replicationcontrollers/scale"
        ),
    ),
    (_READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
    (_READ, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
    (_READ, "resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates"),
    (_READ, "scheduling.k8s.io", "podgroups podgroups/status workloads"),
)
_EDIT: _Rules = (
    (
        _READ,
        "core",
        "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy",
    ),
    ("impersonate", "core", "serviceaccounts"),
    (_WRITE, "core", "pods pods/attach pods/exec pods/portforward pods/proxy"),
    ("create", "core", "pods/eviction"),
    (
        _WRITE,
        "core",
        (
            "configmaps persistentvolumeclaims replicationcontrollers replicationcontrollers/scale "
            "secrets serviceaccounts services services/proxy"
        ),
    ),
    ("create", "core", "serviceaccounts/token"),
    (_WRITE, "core events.k8s.io", "events"),
    (
        _WRITE,
        "apps",
        (
            "daemonsets deployments deployments/rollback deployments/scale replicasets "
            "replicasets/scale statefulsets statefulsets/scale"
        ),
    ),
    (_WRITE, "autoscaling", "horizontalpodautoscalers"),
    (_WRITE, "batch", "cronjobs jobs"),
    (
        _WRITE,
        "extensions",
        (
            "daemonsets deployments deployments/rollback deployments/scale ingresses "
            "networkpolicies replicasets replicasets/scale replicationcontrollers/scale"
        ),
    ),
    (_WRITE, "policy", "poddisruptionbudgets"),
    (_WRITE, "networking.k8s.io", "ingresses networkpolicies"),
    (_ALL, "coordination.k8s.io", "leases"),
    (_WRITE, "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
    (_WRITE, "scheduling.k8s.io", "podgroups workloads"),
)
_ADMIN: _Rules = (
    ("create", "authorization.k8s.io", "localsubjectaccessreviews"),
    (_ALL, _GROUP, "rolebindings roles"),
)
_PARTS = {"view": _VIEW, "edit": _EDIT, "admin": _ADMIN}
_CONTAINED_IN = {"view": "edit", "edit": "admin"}

_OTHERS: dict[str, _Rules] = {
    "cluster-admin": (("*", "*", "*"),),
    "system:auth-delegator": (
        ("create", "authentication.k8s.io", "tokenreviews"),
        ("create", "authorization.k8s.io", "subjectaccessreviews"),
    ),
    "system:basic-user": (
        ("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
        ("create", "authentication.k8s.io", "selfsubjectreviews"),
    ),
    "system:discovery": (),
    "system:monitoring": (("get", "core", "nodes/metrics"),),
    "system:public-info-viewer": (),
    "system:service-account-issuer-discovery": (),
}
# Comes with metrics-server, whose API is served by this server.
_METRICS_READER = "system:aggregated-metrics-reader"
_METRICS: _Rules = ((_READ, "metrics.k8s.io", "pods nodes"),)
_URLS = {
    "cluster-admin": ("*", "*"),
    "system:discovery": (
        "get",
        "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/",
    ),
    "system:monitoring": (
        "get",
        "/healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/*",
    ),
    "system:public-info-viewer": ("get", "/healthz /livez /readyz /version /version/"),
    "system:service-account-issuer-discovery": (
        "get",
        (
            "/.well-known/openid-configuration /.well-known/openid-configuration/ "
            "/openid/v1/jwks /openid/v1/jwks/"
        ),
    ),
}
_BOUND_TO = {
    "cluster-admin": ("system:masters",),
    "system:basic-user": ("system:authenticated",),
    "system:discovery": ("system:authenticated",),
    "system:monitoring": ("system:monitoring",),
    "system:public-info-viewer": ("system:authenticated", "system:unauthenticated"),
    "system:service-account-issuer-discovery": ("system:serviceaccounts",),
}


def bootstrap_roles() -> Iterator[Document]:
    """Yield the ClusterRoles. A controller fills in those that aggregate others."""
    for name, rules in _PARTS.items():
        label = f"{_GROUP}/aggregate-to-{name}"
        labels = {}
        if outer := _CONTAINED_IN.get(name):
            labels[f"{_GROUP}/aggregate-to-{outer}"] = "true"
        selectors = [{"matchLabels": {label: "true"}}]
        role = _object("ClusterRole", name, labels)
        yield {**role, "aggregationRule": {"clusterRoleSelectors": selectors}, "rules": None}
        part = _object("ClusterRole", f"system:aggregate-to-{name}", {label: "true"})
        yield {**part, "rules": _rules(rules)}
    labels = {f"{_GROUP}/aggregate-to-{name}": "true" for name in _PARTS}
    yield {**_object("ClusterRole", _METRICS_READER, labels), "rules": _rules(_METRICS)}
    for name, rules in _OTHERS.items():
        found = _rules(rules)
        if name in _URLS:
            verbs, urls = _URLS[name]
            found.append({"nonResourceURLs": urls.split(), "verbs": verbs.split()})
        yield {**_object("ClusterRole", name), "rules": found}


def bootstrap_bindings() -> Iterator[Document]:
    """Yield the ClusterRoleBindings."""
    for name, groups in _BOUND_TO.items():
        yield {
            **_object("ClusterRoleBinding", name),
            "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": _GROUP, "kind": "Group", "name": each} for each in groups],
        }


def bootstrap_namespaced_roles() -> Iterator[Document]:
    """Yield the Roles of single namespaces."""
    role = _object("Role", "extension-apiserver-authentication-reader")
    role["metadata"]["namespace"] = "kube-system"
    (rule,) = _rules(((_READ, "core", "configmaps"),))
    yield {**role, "rules": [{**rule, "resourceNames": ["extension-apiserver-authentication"]}]}


def _object(kind: str, name: str, labels: dict[str, str] | None = None) -> Document:
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": kind,
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/bootstrapping": "rbac-defaults", **(labels or {})},
            "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
        },
    }


def _rules(rules: _Rules) -> list[Document]:
    return [
        {
            "apiGroups": ["" if group == "core" else group for group in groups.split()],
            "resources": resources.split(),
            "verbs": verbs.split(),
        }
        for verbs, groups, resources in rules
    ]
