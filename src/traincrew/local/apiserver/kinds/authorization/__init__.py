"""The kinds of the API group `authorization.k8s.io`."""

from functools import partial

from traincrew.local.apiserver.kinds.strategy import ResourceType

__all__ = ["RESOURCES"]

_review = partial(
    ResourceType,
    "authorization.k8s.io",
    "v1",
    namespaced=False,
    verbs=("create",),
    package=__name__,
    strategy_file="reviews",
)

RESOURCES = (
    _review("selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    _review("selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    _review("subjectaccessreviews", "SubjectAccessReview"),
    _review("localsubjectaccessreviews", "LocalSubjectAccessReview", namespaced=True),
)
