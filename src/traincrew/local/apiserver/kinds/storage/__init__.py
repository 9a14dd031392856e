"""The kinds of the API group `storage.k8s.io`."""

from traincrew.local.apiserver.kinds.strategy import ResourceType

__all__ = ["RESOURCES"]

RESOURCES = (
    ResourceType(
        "storage.k8s.io",
        "v1",
        "csinodes",
        "CSINode",
        namespaced=False,
        package=__name__,
    ),
    ResourceType(
        "storage.k8s.io",
        "v1",
        "storageclasses",
        "StorageClass",
        namespaced=False,
        short_names=("sc",),
        package=__name__,
    ),
)
