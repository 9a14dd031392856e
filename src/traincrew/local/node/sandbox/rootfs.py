"""The root file system of a container: the machine's files or an image's, plus mounts.

Without an image, every top-level directory of the machine is mounted as an overlay whose upper
layer is a tmpfs of this mount namespace: the program may write wherever it has the permission, and
its files are deleted with it. `/tmp`, `/run` and `/proc` are new, `/sys` is read-only, `/dev` has
the machine's devices. With an image, the overlay is one of its layers (`imagetree`). Volumes are
bound at their exact paths, which are created where they are missing.

`build` runs in the first process of the container's namespaces, as root there.
"""

# No pathlib in here: it would double the imports of every shim.
from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from . import syscalls
from .imagetree import ImageTree
from .mirror import Mirror
from .podmounts import PodMounts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .tree import Tree


class Built(NamedTuple):
    """The properties of a root file system that was built.

    Attributes:
        overlay: directories of the machine are writable by copy on write.
        own_proc: `/proc` shows the container's processes, and not the machine's.
    """

    overlay: bool
    own_proc: bool


def build(
    specification: dict[str, Any],
    built: Callable[[int, list[tuple[str, str]]], None] | None = None,
) -> Built:
    """Replace this mount namespace's root by the container's.

    Args:
        specification: `base` (an existing directory that serves as mount point), `overlay` and
            `user_namespace` (booleans), `mounts` (see `PodMounts`), `read_only`, `masked`,
            `privileged` and `gpus` (see `Tree`), `image` (see `ImageTree`; None for the machine's
            files), `searchable` (see `_make_searchable`), `size` in bytes.
        built: Called when the tree is complete, with a descriptor of the directory that holds
            everything the container can write outside of mounts, and with the directories below
            it, each with its path in the container, outer ones first.

    Raises:
        OSError: A mount was refused; the message names it.
    """
    syscalls.mount("none", "/", None, syscalls.MS_REC | syscalls.MS_PRIVATE)
    base = specification["base"]
    options = "mode=755"
    size = specification.get("size", 0)
    if 0 < size < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2:
        options += f",size={size}"
    syscalls.mount("traincrew", base, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, options)
    root = f"{base}/root"
    os.mkdir(root, 0o755)
    syscalls.bind(root, root, recursive=False)
    tree = _tree(root, f"{base}/layers", specification)
    tree.fill()
    resolver = os.path.realpath("/etc/resolv.conf")

    tree.enter()
    mounts = list(specification["mounts"])
    if isinstance(tree, Mirror):
        _make_searchable(specification.get("searchable") or ())
        if resolver.startswith("/run/") and os.path.exists(tree.machine + resolver):
            mounts.append(
                {"kind": "bind", "source": resolver, "target": resolver, "read_only": True}
            )
    attach = PodMounts(tree, mounts)
    attach.make_targets()
    if specification.get("read_only"):
        for path in ("/", *tree.mirrored):
            syscalls.make_read_only(path, recursive=False)
    attach.mount_all()
    if built is not None:
        top = os.open(tree.machine + base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        built(top, tree.writable)
        os.close(top)
    tree.leave()
    return Built(overlay=tree.overlays > 0, own_proc=tree.own_proc)


def _tree(root: str, layers: str, specification: dict[str, Any]) -> Tree:
    settings = {
        "overlay": specification["overlay"],
        "user_namespace": specification["user_namespace"],
        "masked": specification.get("masked", True),
        "privileged": specification.get("privileged", False),
        "gpus": specification.get("gpus"),
    }
    image = specification.get("image")
    if image is None:
        return Mirror(root, layers, **settings)
    return ImageTree(root, layers, image=image, **settings)


def _make_searchable(paths: Sequence[str]) -> None:
    """Let every user of the container reach these paths: what is above them can be searched.

    Called while the tree has nothing but overlays, whose changes stay in the container, and mounts
    that cannot be written.
    """
    waiting, seen = list(paths), {"/"}
    while waiting:
        parent = os.path.dirname(waiting.pop())
        if not parent or parent in seen:
            continue
        seen.add(parent)
        waiting += (parent, f"{os.path.realpath(parent)}/.")
        with suppress(OSError):
            mode = os.stat(parent).st_mode & 0o7777
            if mode & 0o111 != 0o111:
                os.chmod(parent, mode | 0o111)
