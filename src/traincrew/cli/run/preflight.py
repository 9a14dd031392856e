"""Checks before a cluster is started."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from traincrew.cli.errors import BadInput
from traincrew.cli.manifest.hints import about_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from traincrew.cli.manifest.documents import Document
    from traincrew.local.images import ImageStore

__all__ = ["check_bare", "check_images", "prepare_images"]

_GROUPS = frozenset({"containers", "initContainers"})


def check_images(documents: Sequence[Document], store: ImageStore) -> None:
    """Refuse unknown images: nobody can add them during a run.

    Raises:
        BadInput: An unknown image; the message has the field and the fix of each.
    """
    from traincrew.local.images import ImagePullError

    found: list[str] = []
    reported: set[str] = set()
    for document in documents:
        for path, image in _images(document.content):
            try:
                store.check(image)
            except ImagePullError as error:
                why = str(error) if image not in reported else f'image "{image}": the same'
                if hint := about_value(image):
                    why = f"{why}; {hint}"
                place = document.at(path)
                found.append(f"{place}: {document.kind} {document.name!r}: {path}: {why}")
                reported.add(image)
    if found:
        raise BadInput("\n".join(found))


def check_bare(jobs: Sequence[Document]) -> None:
    """Refuse jobs of several pods in bare mode, in which pods cannot find each other.

    Raises:
        BadInput: Such a job; the message names each.
    """
    found = [
        f"{job.where}: {job.kind} {job.name!r} has pods that find each other by name, and files at"
        " paths that all its pods share: neither is possible with --sandbox bare, which runs jobs"
        " of one pod. `traincrew doctor` says what allows more on this machine"
        for job in jobs
        if _has_peers(job)
    ]
    if found:
        raise BadInput("\n".join(found))


def _has_peers(job: Document) -> bool:
    """Return whether the pods of a job have to find each other."""
    from traincrew.plan.kinds import KINDS

    spec = job.content.get("spec")
    return any(
        kind.has_peers(spec if isinstance(spec, dict) else {})
        for kind in KINDS
        if kind.definition.kind == job.kind
    )


async def prepare_images(
    documents: Sequence[Document], store: ImageStore, report: Callable[[str, str], None]
) -> None:
    """Prepare the images of a run; never return.

    A kubelet retries forever, because somebody may fix the cause. In a run nobody can, and requests
    to the package index have been retried several times by then.

    Args:
        documents: The manifests.
        store: The one of the node, which pulls the same images and reports the progress.
        report: Called with an image and its error, if it is found before the node reports it.

    Raises:
        BadInput: An image cannot be prepared; the message has the reason and the fix.
    """
    from traincrew.local.images import ImagePullError, Notice

    def progress(image: str, line: str) -> None:
        if isinstance(line, Notice):
            report(image, line)

    images = {
        container["image"]
        for document in documents
        for _, container in _containers(document.content)
        if isinstance(container.get("image"), str) and container.get("imagePullPolicy") != "Never"
    }
    try:
        async with asyncio.TaskGroup() as group:
            for image in sorted(images):
                group.create_task(store.pull(image, partial(progress, image)))
    except ExceptionGroup as errors:
        # Not except*: an exception raised in it becomes a group again in some Python versions.
        refused, others = errors.split(ImagePullError)
        if refused is None or others is not None:
            raise
        raise BadInput("\n".join(str(error) for error in refused.exceptions)) from errors
    await asyncio.Event().wait()


def _images(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the image of every container in a document, with its field."""
    for path, container in _containers(value):
        image = container.get("image")
        if isinstance(image, str) and image:
            yield f"{path}.image", image


def _containers(value: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every container in a document, wherever its pod templates are."""
    if isinstance(value, dict):
        for key, item in value.items():
            below = f"{path}.{key}" if path else str(key)
            if key in _GROUPS and isinstance(item, list):
                for index, container in enumerate(item):
                    if isinstance(container, dict):
                        yield f"{below}[{index}]", container
            else:
                yield from _containers(item, below)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _containers(item, f"{path}[{index}]")
