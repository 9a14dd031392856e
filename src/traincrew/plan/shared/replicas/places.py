"""The places of a job's pods: replica type and index."""

from __future__ import annotations

from typing import NamedTuple


class Place(NamedTuple):
    """The replica type and index of one pod of a job."""

    type: str
    """As the user wrote it."""
    number: int

    @property
    def key(self) -> str:
        """The name of the place, unique within the job."""
        return f"{self.type.lower()}-{self.number}"

    def name(self, job: str) -> str:
        """Return the name of the pod and of its Service."""
        return f"{job}-{self.key}"
