"""The kinds of the API group `scheduling.k8s.io`."""

from traincrew.local.apiserver.kinds.strategy import ResourceType

__all__ = ["RESOURCES"]

RESOURCES = (
    ResourceType(
        "scheduling.k8s.io",
        "v1",
        "priorityclasses",
        "PriorityClass",
        namespaced=False,
        short_names=("pc",),
        generation="content",
        package=__name__,
    ),
)
