"""What the user of a request may do, as writes need to know it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["Rights"]


class Rights(Protocol):
    """What a user other than the administrator may do, beyond the verb of the request.

    The verb itself is authorized before the request is processed.
    """

    def check_create(self) -> None:
        """Check that the user may create the object that an update would create.

        Raises:
            StatusError: 403.
        """
        ...

    def check_grant(self, identifier: str, new: Document, old: Document | None) -> None:
        """Check that the user may grant what a new or changed Role, binding or certificate grants.

        Args:
            identifier: identifier of its resource; any resource.
            new: the object as it would be stored.
            old: the stored object; None for a create.

        Raises:
            StatusError: 403 naming what the user lacks, 404 for a binding of a missing Role.
        """
        ...
