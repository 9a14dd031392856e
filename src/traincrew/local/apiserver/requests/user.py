"""The user of a request: every client with the cluster's token is the administrator."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["USER"]

USER: Document = {
    "username": "traincrew:admin",
    "groups": ["system:masters", "system:authenticated"],
}
