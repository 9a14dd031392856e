"""The pull of a container's image, with the kubelet's policies and events."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any

from traincrew.engine.decoding import UndecodableError, decode_base64
from traincrew.engine.errors import NotFoundError
from traincrew.engine.resources import SECRETS
from traincrew.local.images import ImagePullError, Notice
from traincrew.local.images.pulls import PullRequest
from traincrew.local.images.sources import ANNOTATION, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from traincrew.local.images import Environment
    from traincrew.local.images.oci.registry import PullSecret
    from traincrew.local.images.pulls import Lookup
    from traincrew.local.node.containers.handle import PodHandle
    from traincrew.local.node.context import Context
    from traincrew.local.node.fields.downward import PodFacts
    from traincrew.local.node.machine.capabilities import Capabilities

__all__ = ["pull_failure_events", "pull_image", "pull_policy"]


def pull_policy(container: Mapping[str, Any]) -> str:
    """Return `imagePullPolicy` or its default: `Always` for `latest`, else `IfNotPresent`."""
    if policy := container.get("imagePullPolicy"):
        return str(policy)
    name = str(container.get("image", "")).rpartition("/")[2]
    tagged = "@" in name or (":" in name and not name.endswith(":latest"))
    return "IfNotPresent" if tagged else "Always"


async def pull_image(
    pod: PodHandle,
    container: Mapping[str, Any],
    record_event: Callable[[str, str, str], None],
    source: Source | None = None,
) -> Environment:
    """Return what a container's image stands for; build or fetch it first if it is not present.

    Args:
        pod: The container's pod.
        container: Of the pod's spec; of an image volume, what `as_container` returns.
        record_event: Records an event (type, reason, message): at most one `Pulling`, one `Pulled`,
            and one of what users should know: `ImageDamaged`, `ImageNotRenewed`.
        source: Where the image may come from; None if the pod decides.

    Raises:
        ImagePullError: It cannot be pulled at present.
        ApiError: The API server does not answer.
    """
    context = pod.context
    image = str(container.get("image", ""))
    if not image:
        raise ImagePullError("InvalidImageName", "the container names no image")
    source = source or _source(image, pod.facts().pod)
    policy = pull_policy(container)
    found = await _look(context, image, source)
    present = found is not None and found.is_present
    if not present and policy == "Never":
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
            record_event("Warning", line.reason, str(line))
            present = present and line.reason != Notice.reason
        if context.on_progress is not None:
            context.on_progress(image, line)

    secrets = await _secrets(context, pod.facts())
    request = PullRequest(always=policy == "Always", source=source, secrets=secrets)
    environment = await context.images.pull(image, progress, request, found)
    if environment.root is not None and not context.capabilities.overlay:
        raise ImagePullError("ErrImagePull", _unusable(image, context.capabilities))
    if present:
        message = f'Container image "{image}" already present on machine'
        message += " and can be accessed by the pod"
    else:
        took = time.monotonic() - started
        message = f'Successfully pulled image "{image}" in {took:.1f}s'
    record_event("Normal", "Pulled", f"{message}. Using {environment.used}")
    return environment


async def _look(context: Context, image: str, source: Source | None) -> Lookup | None:
    """Return what an image name stands for; None if that is an error, which the pull reports."""
    try:
        return await asyncio.to_thread(context.images.look, image, source)
    except ImagePullError:
        return None


def _source(image: str, pod: Mapping[str, Any]) -> Source | None:
    """Return where the images of a pod may come from, if the pod says so."""
    value = (pod["metadata"].get("annotations") or {}).get(ANNOTATION)
    if value is None:
        return None
    try:
        return Source(value)
    except ValueError:
        known = ", ".join(Source)
        why = f'image "{image}": annotation {ANNOTATION}: "{value[:50]}" is none of {known}'
        raise ImagePullError("ErrImagePull", why) from None


async def _secrets(context: Context, facts: PodFacts) -> tuple[PullSecret, ...]:
    """Return the Secrets that `imagePullSecrets` names; also those that are not there."""
    if not facts.spec.get("imagePullSecrets"):
        return ()
    from traincrew.local.images.oci.registry import PullSecret

    names = [str(each.get("name", "")) for each in facts.spec.get("imagePullSecrets") or ()]
    found = []
    for name in filter(None, dict.fromkeys(names)):
        named = f"{facts.namespace}/{name}"
        try:
            secret = await context.client.get(SECRETS, name, facts.namespace)
        except NotFoundError:
            found.append(PullSecret(name=named, data=None))
            continue
        data = {}
        for key, value in (secret.get("data") or {}).items():
            with contextlib.suppress(UndecodableError):
                data[key] = decode_base64(value)
        found.append(PullSecret(name=named, kind=str(secret.get("type", "")), data=data))
    return tuple(found)


def _unusable(image: str, capabilities: Capabilities) -> str:
    if not capabilities.namespaces:
        why = capabilities.reason
    else:
        why = "its kernel allows overlays to root only (Linux 5.11 allows them to everybody)"
    return (
        f'image "{image}": a container image needs a file system of its own, which this machine'
        f" refuses: {why}; define an environment in its place: traincrew images map"
    )


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
