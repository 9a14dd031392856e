"""Getting a container's image, as patiently as a kubelet."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from traincrew.local.images import ImagePullError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traincrew.local.images import Environment
    from traincrew.local.node.context import Context

__all__ = ["pull_image", "pull_policy"]


def pull_policy(container: Mapping[str, Any]) -> str:
    """`imagePullPolicy`, or what it defaults to: `Always` for `latest`, else `IfNotPresent`."""
    if policy := container.get("imagePullPolicy"):
        return str(policy)
    name = str(container.get("image", "")).rpartition("/")[2]
    tagged = "@" in name or (":" in name and not name.endswith(":latest"))
    return "IfNotPresent" if tagged else "Always"


async def pull_image(
    context: Context, container: Mapping[str, Any], reference: Mapping[str, Any]
) -> Environment:
    """The environment of a container's image; built first if it is not there.

    Args:
        context: The node.
        container: Whose image.
        reference: Of the container, for events: at most one `Pulling` and one `Pulled`.

    Raises:
        ImagePullError: It cannot be had, now.
    """
    image = str(container.get("image", ""))
    regarding = dict(reference)
    if not image:
        raise ImagePullError("InvalidImageName", "the container names no image")
    present = context.images.is_present(image)
    if not present and pull_policy(container) == "Never":
        raise ImagePullError(
            "ErrImageNeverPull",
            f'Container image "{image}" is not present with pull policy of Never',
        )
    started = time.monotonic()
    if not present:
        context.events.event(regarding, "Normal", "Pulling", f'Pulling image "{image}"')

    def progress(line: str) -> None:
        if context.on_progress is not None:
            context.on_progress(image, line)

    environment = await context.images.pull(image, progress)
    if present:
        message = f'Container image "{image}" already present on machine'
    else:
        took = time.monotonic() - started
        message = f'Successfully pulled image "{image}" in {took:.1f}s'
    context.events.event(regarding, "Normal", "Pulled", message)
    return environment
