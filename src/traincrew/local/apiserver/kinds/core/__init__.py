"""The kinds of the core API group."""

from functools import partial

from traincrew.local.apiserver.kinds.strategy import ResourceType, ScalePaths, Subresource

__all__ = ["RESOURCES"]

_PROXY_VERBS = ("create", "delete", "get", "patch", "update")
_resource = partial(ResourceType, "", "v1", package=__name__)

RESOURCES = (
    _resource("bindings", "Binding", verbs=("create",)),
    _resource("configmaps", "ConfigMap", short_names=("cm",), significant_empty=("binaryData",)),
    _resource("endpoints", "Endpoints", short_names=("ep",), create_on_update=True),
    _resource("events", "Event", short_names=("ev",), create_on_update=True),
    _resource("limitranges", "LimitRange", short_names=("limits",), create_on_update=True),
    _resource(
        "namespaces",
        "Namespace",
        namespaced=False,
        short_names=("ns",),
        verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
        status=True,
        subresources=(Subresource("finalize", "Namespace", ("update",)),),
    ),
    _resource("nodes", "Node", namespaced=False, short_names=("no",), status=True),
    _resource(
        "persistentvolumes",
        "PersistentVolume",
        namespaced=False,
        short_names=("pv",),
        status=True,
        returns_deleted=True,
    ),
    _resource(
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        short_names=("pvc",),
        status=True,
        returns_deleted=True,
    ),
    _resource(
        "pods",
        "Pod",
        short_names=("po",),
        categories=("all",),
        status=True,
        generation="spec",
        subresources=(
            Subresource("attach", "PodAttachOptions", ("create", "get")),
            Subresource("binding", "Binding", ("create",)),
            Subresource("ephemeralcontainers", "Pod"),
            Subresource("eviction", "Eviction", ("create",), group="policy", version="v1"),
            Subresource("exec", "PodExecOptions", ("create", "get")),
            Subresource("log", "Pod", ("get",)),
            Subresource("portforward", "PodPortForwardOptions", ("create", "get")),
            Subresource("proxy", "PodProxyOptions", _PROXY_VERBS),
            Subresource("resize", "Pod"),
        ),
        returns_deleted=True,
    ),
    _resource("podtemplates", "PodTemplate", generation="content", returns_deleted=True),
    _resource(
        "replicationcontrollers",
        "ReplicationController",
        short_names=("rc",),
        categories=("all",),
        status=True,
        generation="spec",
        scale=ScalePaths(selector=".spec.selector"),
        orphan_by_default=True,
    ),
    _resource(
        "resourcequotas", "ResourceQuota", short_names=("quota",), status=True, returns_deleted=True
    ),
    _resource("secrets", "Secret", significant_empty=("data",)),
    _resource(
        "services",
        "Service",
        short_names=("svc",),
        categories=("all",),
        status=True,
        subresources=(Subresource("proxy", "ServiceProxyOptions", _PROXY_VERBS),),
        create_on_update=True,
        returns_deleted=True,
    ),
    _resource(
        "serviceaccounts",
        "ServiceAccount",
        short_names=("sa",),
        subresources=(
            Subresource(
                "token", "TokenRequest", ("create",), group="authentication.k8s.io", version="v1"
            ),
        ),
        returns_deleted=True,
    ),
)
