"""The kind of the API group `node.k8s.io`, which has no rules of its own."""

from traincrew.local.apiserver.kinds.strategy import ResourceType

__all__ = ["RESOURCES"]

RESOURCES = (
    ResourceType(
        "node.k8s.io",
        "v1",
        "runtimeclasses",
        "RuntimeClass",
        namespaced=False,
        create_on_update=True,
        unconditional_update=False,
    ),
)
