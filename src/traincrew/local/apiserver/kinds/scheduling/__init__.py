"""The kinds of the API group `scheduling.k8s.io`."""

from functools import partial

from traincrew.local.apiserver.kinds.strategy import ResourceType

__all__ = ["RESOURCES"]

_group = partial(ResourceType, "scheduling.k8s.io", "v1alpha2", package=__name__)

RESOURCES = (
    _group("podgroups", "PodGroup", status=True),
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
    _group("workloads", "Workload"),
)
