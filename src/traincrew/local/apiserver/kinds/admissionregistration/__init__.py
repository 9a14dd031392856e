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
    unconditional_update=False,
    package=__name__,
)
_webhooks = partial(_resource, generation="content", strategy_file="webhook_configurations")

RESOURCES = (
    _resource("mutatingadmissionpolicies", "MutatingAdmissionPolicy", generation="spec"),
    _resource(
        "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", generation="spec"
    ),
    _webhooks("mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
    _resource(
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
        status=True,
        generation="spec",
    ),
    _resource(
        "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", generation="spec"
    ),
    _webhooks("validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
)
