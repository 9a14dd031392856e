"""The kinds of the API group `apiregistration.k8s.io`."""

from traincrew.local.apiserver.kinds.strategy import ResourceType

__all__ = ["RESOURCES"]

RESOURCES = (
    ResourceType(
        "apiregistration.k8s.io",
        "v1",
        "apiservices",
        "APIService",
        namespaced=False,
        categories=("api-extensions",),
        status=True,
        unconditional_update=False,
        package=__name__,
        strategy_file="api_service",
    ),
)
