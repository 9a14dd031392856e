"""The pull of a container's image, with the kubelet's policies and events."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from traincrew.local.images import ImagePullError, Notice

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from traincrew.local.images import Environment
    from traincrew.local.node.context import Context

__all__ = ["pull_failure_events", "pull_image", "pull_policy"]


def pull_policy(container: Mapping[str, Any]) -> str:
    """Return `imagePullPolicy` or its default: `Always` for `latest`, else `IfNotPresent`."""
    if policy := container.get("imagePullPolicy"):
        return str(policy)
    name = str(container.get("image", "")).rpartition("/")[2]
    tagged = "@" in name or (":" in name and not name.endswith(":latest"))
    return "IfNotPresent" if tagged else "Always"


async def pull_image(
    context: Context,
    container: Mapping[str, Any],
    record_event: Callable[[str, str, str], None],
) -> Environment:
    """Return the environment of a container's image; build it first if it is not present.

    Args:
        context: The node.
        container: Of the pod's spec.
        record_event: Records an event (type, reason, message): at most one `Pulling`, one `Pulled`,
            and `ImageDamaged` if the environment is there, but was damaged.

    Raises:
        ImagePullError: It cannot be pulled at present.
    """
    image = str(container.get("image", ""))
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
        record_event("Normal", "Pulling", f'Pulling image "{image}"')

    def progress(line: str) -> None:
        nonlocal present
        if isinstance(line, Notice):
            record_event("Warning", "ImageDamaged", str(line))
            present = False
        if context.on_progress is not None:
            context.on_progress(image, line)

    environment = await context.images.pull(image, progress)
    if present:
        message = f'Container image "{image}" already present on machine'
        message += " and can be accessed by the pod"
    else:
        took = time.monotonic() - started
        message = f'Successfully pulled image "{image}" in {took:.1f}s'
    record_event("Normal", "Pulled", f"{message}. Using {environment.used}")
    return environment


def pull_failure_events(image: str, error: ImagePullError) -> list[tuple[str, str]]:
    """Return reasons and messages of the events about a failed pull, as the kubelet records them.

    Our messages name the image, for places that show nothing else; here naming it once is enough.
    """
    why = error.message.removeprefix(f'image "{image}": ')
    first = {
        "ErrImagePull": ("Failed", f'Failed to pull image "{image}": {why}'),
        "ErrImageNeverPull": ("ErrImageNeverPull", error.message),
        "InvalidImageName": (
            "InspectFailed",
            f'Failed to apply default image tag "{image}": {why}',
        ),
    }
    return [first[error.reason], ("Failed", f"Error: {error.reason}")]
