"""Errors of images: a failed pull, a failed build, an invalid catalog."""

from __future__ import annotations

import shlex
from typing import Literal

_MAX_MESSAGE = 3000
PullReason = Literal["ErrImagePull", "InvalidImageName", "ErrImageNeverPull"]


class ImagePullError(Exception):
    """An image cannot be pulled; reported as the waiting state of a container.

    Attributes:
        reason: The kubelet's reason (``ContainerStateWaiting.reason``).
        message: One line for ``kubectl describe``: what failed, why, and what to do.
        permanent: A retry fails until a name, a catalog, a file or the machine changes. Otherwise
            (an index that cannot be reached) it may succeed later.
        unanswered: No registry has answered, so nothing is known about the image.
    """

    def __init__(
        self,
        reason: PullReason,
        message: str,
        *,
        permanent: bool = True,
        unanswered: bool = False,
    ) -> None:
        self.message = _shown(message)
        super().__init__(self.message)
        self.reason: PullReason = reason
        self.permanent = permanent
        self.unanswered = unanswered


class BuildError(Exception):
    """An environment could not be built; the message names the reason and a fix.

    Attributes:
        permanent: As of `ImagePullError`.
    """

    def __init__(self, message: str, *, permanent: bool = True) -> None:
        super().__init__(message)
        self.permanent = permanent


class ImageContentError(ValueError):
    """The content of an image is wrong or refused; the message says what, not which image."""

    def __init__(self, message: str) -> None:
        super().__init__(_shown(message))


class CatalogError(ValueError):
    """A catalog of environments is invalid; the message names file, entry and field.

    What a catalog has in it may be long, or move the cursor of a terminal.
    """

    def __init__(self, message: str) -> None:
        super().__init__(_shown(message))


def no_environment(image: str) -> str:
    """Return why an image cannot be used if nothing but environments may be."""
    return f"no environment is defined for it; {how_to_define(image)}"


def without_environment(image: str, error: ImagePullError) -> ImagePullError:
    """Return the error about an image that no environment stands for and no registry gives."""
    if error.permanent:
        why = f"{error.message}; an environment can take its place; {how_to_define(image)}"
    else:
        why = (
            f'image "{image}": no environment is defined for it, and {error.message};'
            f" {how_to_define(image)}"
        )
    return ImagePullError(error.reason, why, permanent=error.permanent, unanswered=error.unanswered)


def how_to_define(image: str) -> str:
    """Return what to do for an environment of an image."""
    return (
        f"define one: traincrew images map {shlex.quote(image)} --python 3.11 --requirements "
        "requirements.txt"
    )


def _shown(message: str) -> str:
    """Return a message as one line that a terminal only prints."""
    if len(message) > _MAX_MESSAGE:
        message = message[:_MAX_MESSAGE] + "…"
    return printable(message)


def printable(text: str) -> str:
    """Return a text of a stranger as one line that a terminal only prints."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)
