"""Reviews of credentials, which are answered and not stored."""

from __future__ import annotations

from traincrew.local.apiserver.kinds.strategy import Strategy

__all__ = ["STRATEGY"]

STRATEGY = Strategy(
    name_fault=None,
)
