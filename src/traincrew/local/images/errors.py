"""The two ways an image can be unusable: its reference or pull fails, or a catalog is wrong."""

from __future__ import annotations

from typing import Literal

PullReason = Literal["ErrImagePull", "InvalidImageName", "ErrImageNeverPull"]


class ImagePullError(Exception):
    """An image cannot be had; shown to people as the waiting state of a container.

    Attributes:
        reason: The kubelet's word for it (``ContainerStateWaiting.reason``).
        message: One line for ``kubectl describe``: what failed, why, and what to do.
    """

    def __init__(self, reason: PullReason, message: str) -> None:
        super().__init__(message)
        self.reason: PullReason = reason
        self.message = message


class CatalogError(ValueError):
    """A catalog of environments is wrong; the message names the file, the entry and the field."""
