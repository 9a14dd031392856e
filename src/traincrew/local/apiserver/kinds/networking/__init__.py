"""The kinds of the API group `networking.k8s.io`."""

from functools import partial

from traincrew.local.apiserver.kinds.strategy import ResourceType

__all__ = ["RESOURCES"]

_resource = partial(ResourceType, "networking.k8s.io", "v1", package=__name__)

RESOURCES = (
    _resource("ingresses", "Ingress", short_names=("ing",), status=True, generation="spec"),
    _resource("ingressclasses", "IngressClass", namespaced=False, generation="spec"),
    _resource(
        "networkpolicies",
        "NetworkPolicy",
        short_names=("netpol",),
        generation="spec",
        significant_empty=("spec",),
    ),
)
