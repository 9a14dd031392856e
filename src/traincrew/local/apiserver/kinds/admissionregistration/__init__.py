"""The kinds of the API group `admissionregistration.k8s.io`."""

from functools import partial

from traincrew.local.apiserver.kinds.strategy import ResourceType

__all__ = ["RESOURCES"]

_resource = partial(
    ResourceType,
    "admissionregistration.k8s.io",
    "v1",
    namespaced=False,
    categories=("api-extensions",),
    generation="content",
    unconditional_update=False,
    package=__name__,
    strategy_file="webhook_configurations",
)

RESOURCES = (
    _resource("mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
    _resource("validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
)
