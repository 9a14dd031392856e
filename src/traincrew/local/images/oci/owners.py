"""Layers with the owners of the image, where this user has subordinate IDs.

Without root, a layer is unpacked so that everything belongs to this user. A container that has more
than one user gets trees in which files have their owners: hard links of the unpacked ones where
these are root's, which is this user, and copies of the others. Root of a user namespace makes and
removes them (`run_mapped`).
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from msgspec.structs import replace

from traincrew.local.images.oci.cleanup import new_directory
from traincrew.local.images.oci.implied import OwnedDirectory
from traincrew.local.images.oci.layers import Kind, final_records
from traincrew.local.images.oci.places import DIRECTORIES, OWNERS, TREE, Places, read
from traincrew.local.subordinate import run_mapped

if TYPE_CHECKING:
    from pathlib import Path

    from traincrew.local.images.environment import ImageRoot
    from traincrew.local.images.oci.layers import Record
    from traincrew.local.images.oci.places import LayerRecord
    from traincrew.local.subordinate import IdMap

__all__ = ["owned_root", "owners_of_directories", "stale_owned"]

_OWNED = "owned-"
"""How the directory of these trees begins, beside that of the layers they are made from."""
_NOBODY = 65534
"""What the kernel shows of an ID that is not mapped."""

OwnedEntry = tuple[str, int, int, int]
"""Path, UID, GID and mode of an entry that is not like the unpacked one."""


def owned_root(root: ImageRoot, id_map: IdMap) -> ImageRoot:
    """Return the root of a container in which files have the owners of the image.

    What is missing is made; other processes wait meanwhile.

    Args:
        root: of a stored image, unpacked with everything this user's.
        id_map: the users of the container.

    Raises:
        OSError: They cannot be made.
    """
    if root.place is None:
        return root
    places = Places(root.place.parent.parent, "single")
    layers = (_owned(places, tree, id_map) if tree in root.owned else tree for tree in root.layers)
    return replace(root, layers=tuple(layers))


def _owned(places: Places, tree: Path, id_map: IdMap) -> Path:
    below = "" if tree.name == TREE else DIRECTORIES
    final = _directory(places, id_map) / tree.parent.name / below
    if final.is_dir():
        return final / TREE
    with places.lock("owned"):
        if not final.is_dir():
            _make(places, tree, final, id_map)
    return final / TREE


def _directory(places: Places, id_map: IdMap) -> Path:
    # With another map, files have other owners.
    name = hashlib.sha256(repr((id_map.uids, id_map.gids)).encode()).hexdigest()[:12]
    return places.layers.parent / f"{_OWNED}{name}"


def _make(places: Places, tree: Path, final: Path, id_map: IdMap) -> None:
    final.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with new_directory(places.partial, "owned") as made:
        target = made / TREE
        target.mkdir(mode=0o700)
        users, groups = id_map.users, id_map.groups
        owners = [
            (path, _within(uid, users), _within(gid, groups), mode)
            for path, uid, gid, mode in _entries(tree)
        ]
        arguments = {"source": str(tree), "target": str(target), "owners": owners}
        run_mapped(id_map, "copy", arguments)
        places.complete(made, final)


def _within(number: int, count: int) -> int:
    if number < count:
        return number
    return _NOBODY if count > _NOBODY else 0


def _entries(tree: Path) -> list[OwnedEntry]:
    """Return the entries of a tree that belong to others than root, or change who runs them."""
    if tree.name != TREE:
        made: list[OwnedDirectory] = read(tree.parent / OWNERS, list[OwnedDirectory]) or []
        return [
            (os.fsdecode(each.path.encode("latin-1")), each.uid, each.gid, each.mode)
            for each in made
        ]
    return [
        (os.fsdecode(path), each.uid, each.gid, each.mode | each.set_id)
        for path, each in _records(tree).items()
        if each.kind is not Kind.WHITEOUT and (each.uid or each.gid or each.set_id)
    ]


def _records(tree: Path) -> dict[bytes, Record]:
    try:
        with (tree.parent / "records").open("rb") as file:
            return final_records(file)
    except ValueError as error:
        raise OSError(f"{tree.parent}: {error}") from error


def owners_of_directories(tree: Path, layer: LayerRecord) -> dict[bytes, tuple[int, int]]:
    """Return UID and GID of the directories of a layer that are not root's in the image.

    Raises:
        OSError: The records cannot be read.
    """
    if not layer.has_owners:
        return {}
    return {
        path: (each.uid, each.gid)
        for path, each in _records(tree).items()
        if each.kind is Kind.DIRECTORY and (each.uid or each.gid)
    }


def stale_owned(places: Places) -> list[Path]:
    """Return the trees whose layers are gone.

    Args:
        places: of the store.
    """
    return [
        each
        for each in places.layers.parent.glob(f"{_OWNED}*/sha256-*")
        if not (places.layers / each.name).is_dir() and not (places.images / each.name).is_dir()
    ]
