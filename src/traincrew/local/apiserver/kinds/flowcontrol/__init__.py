"""The kinds of the API group `flowcontrol.apiserver.k8s.io`."""

from functools import partial

from traincrew.local.apiserver.kinds.strategy import ResourceType

__all__ = ["RESOURCES"]

_configuration = partial(
    ResourceType,
    "flowcontrol.apiserver.k8s.io",
    "v1",
    namespaced=False,
    status=True,
    generation="spec",
    package=__name__,
)

RESOURCES = (
    _configuration("flowschemas", "FlowSchema"),
    _configuration("prioritylevelconfigurations", "PriorityLevelConfiguration"),
)
