"""Reviews of permissions, which are answered and not stored."""

from __future__ import annotations

from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy

__all__ = ["STRATEGY"]

STRATEGY = Strategy(
    resources=(
        ResourceType(
            "authorization.k8s.io",
            "v1",
            "selfsubjectaccessreviews",
            "SelfSubjectAccessReview",
            namespaced=False,
            verbs=("create",),
        ),
        ResourceType(
            "authorization.k8s.io",
            "v1",
            "selfsubjectrulesreviews",
            "SelfSubjectRulesReview",
            namespaced=False,
            verbs=("create",),
        ),
        ResourceType(
            "authorization.k8s.io",
            "v1",
            "subjectaccessreviews",
            "SubjectAccessReview",
            namespaced=False,
            verbs=("create",),
        ),
        ResourceType(
            "authorization.k8s.io",
            "v1",
            "localsubjectaccessreviews",
            "LocalSubjectAccessReview",
            verbs=("create",),
        ),
    ),
    name_fault=None,
)
