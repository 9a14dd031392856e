"""Revisions of a StatefulSet's template: the current one, and the one to update to. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from traincrew.engine.resources import STATEFUL_SETS
from traincrew.local.controllers.revisions import (
    data_of,
    in_order,
    revision_document,
    template_of,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from traincrew.engine.objects import AnyObject

_HASH = "controller.kubernetes.io/hash"


class Revisions(Struct):
    """The revisions of a StatefulSet.

    Attributes:
        current: Name of the revision pods were created from before the latest change.
        update: Name of the revision of the current template.
        templates: Revision name -> pod template.
        create: A ControllerRevision to create first, or None.
        renumber: An old revision that is the newest again, and its number; or None.
        obsolete: Unused revisions beyond the history limit.
    """

    current: str
    update: str
    templates: dict[str, dict[str, Any]]
    create: dict[str, Any] | None = None
    renumber: tuple[AnyObject, int] | None = None
    obsolete: list[AnyObject] = field(default_factory=list)


def choose(
    owner: AnyObject, history: Sequence[AnyObject], in_use: Collection[str] = ()
) -> Revisions:
    """Find or create the revision of the current template.

    Args:
        owner: The StatefulSet.
        history: Its ControllerRevisions.
        in_use: Names of revisions that pods have.
    """
    data = data_of(owner)
    ordered = in_order(history)
    newest = ordered[-1].revision if ordered else 0
    same = [revision for revision in ordered if revision.data == data]
    templates = {revision.metadata.name: template_of(revision.data) for revision in ordered}
    create = renumber = None
    if same:
        update = same[-1].metadata.name
        if same[-1].revision != newest:
            renumber = (same[-1], newest + 1)
    else:
        create = revision_document(owner, STATEFUL_SETS, data, newest + 1, hash_label=_HASH)
        update = create["metadata"]["name"]
        templates[update] = template_of(data)
    current = owner.status.get("currentRevision") or update
    if current not in templates:
        current = update
    live = {current, update, *in_use}
    limit = int(owner.spec.get("revisionHistoryLimit", 10))
    spare = [revision for revision in ordered if revision.metadata.name not in live]
    obsolete = spare[: max(0, len(spare) - limit)]
    return Revisions(current, update, templates, create, renumber, obsolete)
