"""Reviews of credentials, which are answered and not stored."""

from __future__ import annotations

from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy

__all__ = ["STRATEGY"]

STRATEGY = Strategy(
    resources=(
        ResourceType(
            "authentication.k8s.io",
            "v1",
            "selfsubjectreviews",
            "SelfSubjectReview",
            namespaced=False,
            verbs=("create",),
        ),
        ResourceType(
            "authentication.k8s.io",
            "v1",
            "tokenreviews",
            "TokenReview",
            namespaced=False,
            verbs=("create",),
        ),
    ),
    name_fault=None,
)
