"""Errors of images: a failed pull, a failed build, an invalid catalog."""

from __future__ import annotations

from typing import Literal

PullReason = Literal["ErrImagePull", "InvalidImageName", "ErrImageNeverPull"]


class ImagePullError(Exception):
    """An image cannot be pulled; reported as the waiting state of a container.

    Attributes:
        reason: The kubelet's reason (``ContainerStateWaiting.reason``).
        message: One line for ``kubectl describe``: what failed, why, and what to do.
        permanent: A retry fails until a name, a catalog, a file or the machine changes. Otherwise
            (an index that cannot be reached) it may succeed later.
    """

    def __init__(self, reason: PullReason, message: str, *, permanent: bool = True) -> None:
        super().__init__(message)
        self.reason: PullReason = reason
        self.message = message
        self.permanent = permanent


class BuildError(Exception):
    """An environment could not be built; the message names the reason and a fix.

    Attributes:
        permanent: As of `ImagePullError`.
    """

    def __init__(self, message: str, *, permanent: bool = True) -> None:
        super().__init__(message)
        self.permanent = permanent


class CatalogError(ValueError):
    """A catalog of environments is invalid; the message names file, entry and field."""
