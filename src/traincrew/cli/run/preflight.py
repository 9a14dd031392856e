"""Checks before a cluster is started."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from traincrew.cli.errors import BadInput
from traincrew.cli.manifest.hints import about_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from traincrew.cli.manifest.documents import Document
    from traincrew.local.images import ImageStore
    from traincrew.local.images.sources import Source

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
        for path, container in _containers(document.content):
            image = container.image
            try:
                store.check(image, container.source)
            except ImagePullError as error:
                why = str(error) if image not in reported else f'image "{image}": the same'
                if hint := about_value(image):
                    why = f"{why}; {hint}"
                found.append(f"{_place(document, path)}: {why}")
                reported.add(image)
    if found:
        raise BadInput("\n".join(found))


def _place(document: Document, path: str) -> str:
    field = f"{path}.image"
    return f"{document.at(field)}: {document.kind} {document.name!r}: {field}"


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

    from traincrew.local.images.pulls import PullRequest

    async def pull(image: str, source: Source | None, place: str) -> None:
        try:
            await store.pull(image, partial(progress, image), PullRequest(source=source))
        except ImagePullError as error:
            raise BadInput(f"{place}: {error}") from error

    places: dict[tuple[str, Source | None], str] = {}
    for document in documents:
        for path, container in _containers(document.content):
            # With credentials of its own the pod alone can pull it.
            if container.policy != "Never" and not container.has_secrets:
                key = (container.image, container.source)
                places.setdefault(key, _place(document, path))
    try:
        async with asyncio.TaskGroup() as group:
            for (image, source), place in sorted(places.items(), key=str):
                group.create_task(pull(image, source, place))
    except ExceptionGroup as errors:
        # Not except*: an exception raised in it becomes a group again in some Python versions.
        refused, others = errors.split(BadInput)
        if refused is None or others is not None:
            raise
        raise BadInput("\n".join(str(error) for error in refused.exceptions)) from errors
    await asyncio.Event().wait()


class _Container(NamedTuple):
    """What of a container decides where its image comes from.

    Attributes:
        image: As written.
        policy: Its `imagePullPolicy`; empty for the default.
        has_secrets: Its pod names credentials.
        source: What its pod allows; None if it says nothing that is known.
    """

    image: str
    policy: str
    has_secrets: bool
    source: Source | None


def _containers(
    value: Any, path: str = "", source: Source | None = None
) -> Iterator[tuple[str, _Container]]:
    """Yield every container with an image in a document, wherever its pod templates are."""
    if isinstance(value, dict):
        source = _source(value) or source
        for key, item in value.items():
            below = f"{path}.{key}" if path else str(key)
            if key in _GROUPS and isinstance(item, list):
                for index, container in enumerate(item):
                    if isinstance(container, dict) and isinstance(container.get("image"), str):
                        policy = str(container.get("imagePullPolicy") or "")
                        secrets = bool(value.get("imagePullSecrets"))
                        if image := container["image"]:
                            found = _Container(image, policy, secrets, source)
                            yield f"{below}[{index}]", found
            else:
                yield from _containers(item, below, source)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _containers(item, f"{path}[{index}]", source)


def _source(holder: dict[str, Any]) -> Source | None:
    """Return what the metadata of a pod or its template says of the images' source."""
    from traincrew.local.images.sources import ANNOTATION, Source

    metadata = holder.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    value = annotations.get(ANNOTATION) if isinstance(annotations, dict) else None
    return Source(value) if isinstance(value, str) and value in set(Source) else None
