"""The revisions of a DaemonSet: the current one, and those of before. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from traincrew.local.controllers.daemonset.nodes import DAEMON_SETS
from traincrew.local.controllers.revisions import (
    REVISION_LABEL,
    data_of,
    in_order,
    revision_document,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from traincrew.engine.objects import AnyObject


class History(Struct):
    """The revisions of a DaemonSet.

    Attributes:
        current: Hash of the revision of the current template: a label of its pods.
        create: A ControllerRevision to create first, or None.
        renumber: An old revision that is the newest again, and its number; or None.
        duplicates: Further revisions of the same template, which are deleted.
        old: The others, the oldest first.
    """

    current: str
    create: dict[str, Any] | None = None
    renumber: tuple[AnyObject, int] | None = None
    duplicates: list[AnyObject] = field(default_factory=list)
    old: list[AnyObject] = field(default_factory=list)

    def stale_hashes(self) -> set[str]:
        """Return the hashes of the duplicates, whose pods get the current one."""
        return {hash_of(revision) for revision in self.duplicates}


def hash_of(revision: AnyObject) -> str:
    """Return the hash of a revision; its name if it lacks the label."""
    return revision.metadata.labels.get(REVISION_LABEL, revision.metadata.name)


def choose(owner: AnyObject, revisions: Iterable[AnyObject]) -> History:
    """Find or create the revision of the current template.

    Args:
        owner: The DaemonSet.
        revisions: Its ControllerRevisions.
    """
    data = data_of(owner)
    ordered = in_order(revisions)
    same = [revision for revision in ordered if revision.data == data]
    old = [revision for revision in ordered if revision.data != data]
    number = old[-1].revision + 1 if old else 1
    if same:
        *duplicates, kept = same
        renumber = (kept, number) if kept.revision < number else None
        return History(hash_of(kept), None, renumber, duplicates, old)
    collisions = int(owner.status.get("collisionCount") or 0)
    create = revision_document(
        owner, DAEMON_SETS, data, number, hash_label=REVISION_LABEL, collisions=collisions
    )
    return History(create["metadata"]["labels"][REVISION_LABEL], create, old=old)


def obsolete(owner: AnyObject, history: History, in_use: Collection[str]) -> list[AnyObject]:
    """Return the revisions beyond the limit; those of pods that exist stay.

    Args:
        owner: The DaemonSet.
        history: Its revisions.
        in_use: Hashes of its pods.
    """
    limit = int(owner.spec.get("revisionHistoryLimit", 10))
    spare = [revision for revision in history.old if hash_of(revision) not in in_use]
    return spare[: max(0, len(history.old) - limit)]
