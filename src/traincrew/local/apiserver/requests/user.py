"""Users that no credential names: the administrator, and whoever has no credentials."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["ANONYMOUS", "USER"]

USER: Document = {
    "username": "traincrew:admin",
    "groups": ["system:masters", "system:authenticated"],
}
"""Whoever has the cluster's token."""

ANONYMOUS: Document = {"username": "system:anonymous", "groups": ["system:unauthenticated"]}
"""Whoever has neither a token nor a certificate, where such requests are served."""
