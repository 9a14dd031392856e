"""What can be known to be wrong before a cluster is started."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.cli.main import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traincrew.cli.manifest import Document
    from traincrew.local.images import ImageStore

__all__ = ["check_images"]

_GROUPS = frozenset({"containers", "initContainers"})


def check_images(documents: Sequence[Document], store: ImageStore) -> None:
    """Refuse images that stand for nothing: in a run that ends by itself nobody will add them.

    Raises:
        BadInput: Naming the field of each, and what to add where.
    """
    from traincrew.local.images import ImagePullError

    found: list[str] = []
    told: set[str] = set()
    for document in documents:
        for path, image in _images(document.content):
            try:
                store.check(image)
            except ImagePullError as error:
                why = str(error) if image not in told else f'image "{image}": the same'
                found.append(f"{document.where}: {document.kind} {document.name!r}: {path}: {why}")
                told.add(image)
    if found:
        raise BadInput("\n".join(found))


def _images(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every container's image in a document, wherever its pod templates are."""
    if isinstance(value, dict):
        for key, item in value.items():
            below = f"{path}.{key}" if path else str(key)
            if key in _GROUPS and isinstance(item, list):
                for index, container in enumerate(item):
                    image = container.get("image") if isinstance(container, dict) else None
                    if isinstance(image, str) and image:
                        yield f"{below}[{index}].image", image
            else:
                yield from _images(item, below)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _images(item, f"{path}[{index}]")
