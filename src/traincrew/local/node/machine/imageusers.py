"""The users that containers of images have where the cluster does not run as root."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from traincrew.local.subordinate import NoSubordinateIdsError, run_mapped, subordinate_ids

if TYPE_CHECKING:
    from traincrew.local.subordinate import IdMap

__all__ = ["ImageUsers", "usable_ids"]


class ImageUsers:
    """Finds out once, when the first container needs it, which users there are.

    Attributes:
        reason: why containers have one user; empty while it is not known, or if they have more.
    """

    def __init__(self) -> None:
        self.reason = ""
        self._found: asyncio.Task[IdMap | None] | None = None

    async def id_map(self) -> IdMap | None:
        """Return the users; None if there is only one: see `reason`."""
        if self._found is None:
            self._found = asyncio.create_task(asyncio.to_thread(self._find))
        return await asyncio.shield(self._found)

    def _find(self) -> IdMap | None:
        try:
            return usable_ids()
        except (NoSubordinateIdsError, OSError) as error:
            self.reason = str(error)
            return None


def usable_ids() -> IdMap:
    """Return the users of containers, once a user namespace with them was entered.

    Raises:
        NoSubordinateIdsError: There are none.
        OSError: The namespace is refused.
    """
    id_map = subordinate_ids()
    run_mapped(id_map, "remove", {"paths": []})
    return id_map
