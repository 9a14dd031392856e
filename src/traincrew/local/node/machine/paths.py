"""The directories of the node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.directories import discard_tree

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Paths"]


class Paths:
    """The directories of the node.

    Args:
        state: The node's directory.
        memory: A directory in memory, for volumes and `/dev/shm`; known once the node starts.
    """

    def __init__(self, state: Path, memory: Path | None = None) -> None:
        self.state = state
        self.memory = memory or state / "memory"
        self.pods = state / "pods"
        self.claims = state / "claims"
        self.hosts = state / "hosts"
        self.root = state / "root"
        """Mount point for the root file systems, each in its own mount namespace."""

    def pod(self, uid: str) -> Path:
        """Return the directory of a pod on disk."""
        return self.pods / uid

    def containers(self, uid: str) -> Path:
        """Return the directory of a pod's containers, with one sub-directory per instance each."""
        return self.pod(uid) / "containers"

    def volumes(self, uid: str) -> Path:
        """Return the directory of a pod's volumes."""
        return self.pod(uid) / "volumes"

    def shared_memory(self, uid: str) -> Path:
        """Return the directory of a pod in memory."""
        return self.memory / uid

    def remove_pod(self, uid: str) -> None:
        """Delete all files of a pod."""
        discard_tree(self.shared_memory(uid))
        discard_tree(self.pod(uid))
