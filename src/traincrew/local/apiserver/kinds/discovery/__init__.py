"""The kinds of the API group `discovery.k8s.io`."""

from traincrew.local.apiserver.kinds.strategy import ResourceType

__all__ = ["RESOURCES"]

RESOURCES = (
    ResourceType(
        "discovery.k8s.io",
        "v1",
        "endpointslices",
        "EndpointSlice",
        generation="content",
        package=__name__,
    ),
)
