"""The kinds of the API group `coordination.k8s.io`."""

from traincrew.local.apiserver.kinds.strategy import ResourceType

__all__ = ["RESOURCES"]

RESOURCES = (
    ResourceType(
        "coordination.k8s.io",
        "v1",
        "leases",
        "Lease",
        create_on_update=True,
        unconditional_update=False,
        package=__name__,
    ),
)
