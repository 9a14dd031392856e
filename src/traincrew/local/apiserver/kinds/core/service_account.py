"""ServiceAccounts."""

from __future__ import annotations

from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy, Subresource

__all__ = ["STRATEGY"]

STRATEGY = Strategy(
    resources=(
        ResourceType(
            "",
            "v1",
            "serviceaccounts",
            "ServiceAccount",
            short_names=("sa",),
            subresources=(
                Subresource(
                    "token",
                    "TokenRequest",
                    ("create",),
                    group="authentication.k8s.io",
                    version="v1",
                ),
            ),
            returns_deleted=True,
        ),
    ),
)
