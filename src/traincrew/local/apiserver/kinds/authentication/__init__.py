"""The kinds of the API group `authentication.k8s.io`."""

from functools import partial

from traincrew.local.apiserver.kinds.strategy import ResourceType

__all__ = ["RESOURCES"]

_review = partial(
    ResourceType,
    "authentication.k8s.io",
    "v1",
    namespaced=False,
    verbs=("create",),
    package=__name__,
    strategy_file="reviews",
)

RESOURCES = (
    _review("selfsubjectreviews", "SelfSubjectReview"),
    _review("tokenreviews", "TokenReview"),
)
