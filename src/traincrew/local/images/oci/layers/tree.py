"""Entries of a layer -> a directory in the format of overlayfs.

Names are a stranger's. Every directory on the way to an entry is opened by the name of one
component, relative to its parent and never through a symbolic link; links of the layer itself are
followed here, and an absolute one begins at the layer's own root, which ``..`` does not leave.

A layer changes what is below it by names (OCI image specification, "layer"): ``.wh.NAME`` deletes
NAME of the layers below, ``.wh..wh..opq`` all of them in a directory. For overlayfs the first is a
character device 0:0, the second an attribute of the directory.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import Counter
from typing import TYPE_CHECKING, Literal

from traincrew.local.images.errors import ImageContentError
from traincrew.local.images.oci.layers.directories import Directories, exists, split
from traincrew.local.images.oci.layers.headers import shown
from traincrew.local.images.oci.layers.records import Kind, Record
from traincrew.local.images.oci.layers.writing import (
    is_whiteout,
    make_whiteout,
    set_time,
    set_time_of,
    write_content,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.local.images.oci.layers.headers import Entry
    from traincrew.local.images.oci.layers.limits import Limits
    from traincrew.local.images.oci.layers.tarfiles import Archive

__all__ = ["LayerTree", "Owners"]

Owners = Literal["true", "single"]

_WHITEOUT = b".wh."
_OPAQUE = b".wh..wh..opq"
_OTHERS_METADATA = b".wh..wh."
"""Files of AUFS, which mean nothing to others."""
_MAX_ID = (1 << 32) - 2
_MAX_TARGET = 4095
_SET_ID = stat.S_ISUID | stat.S_ISGID


class LayerTree:
    """The directory that a layer is unpacked into."""

    def __init__(
        self, root: int, owners: Owners, limits: Limits, record: Callable[[Record], None]
    ) -> None:
        """Unpack below an empty directory.

        Args:
            root: its descriptor.
            owners: whether files get the owners of the archive, or stay this user's.
            limits: of the layer.
            record: each entry is passed to it.
        """
        self._owned = owners == "true"
        self._limits = limits
        self._record = record
        self._directories = Directories(root, limits.directories)
        self._left_out: Counter[str] = Counter()
        self._examples: dict[str, str] = {}
        self._entries = 0
        self._size = 0
        self.has_owners = False
        """Whether the image has owners other than root in it, or bits that change the user."""

    @property
    def size(self) -> int:
        """The bytes of its files, holes included."""
        return self._size

    @property
    def is_opaque(self) -> bool:
        """Whether it hides all layers below it."""
        return self._directories.is_opaque

    def left_out(self) -> tuple[str, ...]:
        """Return what was not unpacked, for users."""
        return tuple(
            f"{what}: of {count} {'entry' if count == 1 else 'entries'}, such as "
            f"{self._examples[what]}"
            for what, count in sorted(self._left_out.items())
        )

    def add(self, entry: Entry, archive: Archive) -> None:
        """Unpack an entry.

        Raises:
            ImageContentError: It is refused.
            OSError: It cannot be written.
        """
        self._entries += 1
        if self._entries > self._limits.entries:
            raise ImageContentError(
                f"a layer has more than {self._limits.entries} entries, the most that is accepted"
            )
        components = split(entry.name)
        if not components:
            if entry.type == 0x35:
                self._set_directory(b"", entry)
            return
        name = components.pop()
        parent, place = self._directories.open(components, entry.name)
        if name.startswith(_WHITEOUT):
            self._white_out(parent, place, name, entry)
            return
        path = place + b"/" + name if place else name
        add = {
            0x30: self._add_file,
            0x31: self._add_hard_link,
            0x32: self._add_symbolic_link,
            0x33: self._leave_out_device,
            0x34: self._leave_out_device,
            0x35: self._add_directory,
            0x36: self._add_fifo,
        }.get(entry.type)
        if add is None:
            raise ImageContentError(
                f'{shown(entry.name)}: a tar entry of type "{chr(entry.type)}", which layers do '
                "not have"
            )
        add(parent, name, path, entry, archive)

    def finish(self) -> tuple[bytes, ...]:
        """Set modes and times of directories; return those that the layer does not describe.

        Raises:
            OSError: They cannot be set.
        """
        implied = []
        for path, found in self._directories.described():
            fd = self._directories.reopen(path)
            if not found.described:
                implied.append(path)
            mtime = found.mtime
            os.fchmod(fd, found.mode)
            if mtime is None:
                mtime = os.fstat(fd).st_mtime_ns
            else:
                os.utime(fd, ns=(mtime, mtime))
            opaque = b"opaque" if found.opaque else b""
            self._record(
                Record(Kind.DIRECTORY, path, found.mode, found.uid, found.gid, 0, mtime, opaque)
            )
        return tuple(implied)

    def close(self) -> None:
        """Close its directories."""
        self._directories.close()

    def _add_file(
        self, parent: int, name: bytes, path: bytes, entry: Entry, archive: Archive
    ) -> None:
        self._size += entry.size
        self._limits.check_files(self._size)
        fd = self._created(parent, name, path)
        try:
            checksum = write_content(fd, entry, archive)
            mode = self._mode(entry)
            if self._owned:
                os.fchown(fd, *_ids(entry))
            os.fchmod(fd, mode)
            if entry.attributes:
                self._set_attributes(fd, entry)
            set_time_of(fd, entry)
        finally:
            os.close(fd)
        self._note(Kind.FILE, path, entry, mode, checksum.to_bytes(4, "big"))

    def _created(self, parent: int, name: bytes, path: bytes) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            return os.open(name, flags, 0o600, dir_fd=parent)
        except FileExistsError:
            self._remove(parent, name, path)
            return os.open(name, flags, 0o600, dir_fd=parent)

    def _add_directory(
        self, parent: int, name: bytes, path: bytes, entry: Entry, _archive: Archive
    ) -> None:
        found = exists(parent, name)
        whiteout = found is not None and is_whiteout(found)
        if found is not None and not stat.S_ISDIR(found.st_mode):
            self._remove(parent, name, path)
            found = None
        if found is None:
            self._directories.add(parent, name, path)
        self._set_directory(path, entry)
        if whiteout:
            # Deleted and made anew: nothing of the one below shows through.
            self._directories.set_opaque(path)

    def _set_directory(self, path: bytes, entry: Entry) -> None:
        fd = self._directories.reopen(path)
        if self._owned:
            os.fchown(fd, *_ids(entry))
        uid, gid = self._recorded(entry)
        if entry.attributes:
            self._set_attributes(fd, entry)
        # The group of a directory gives nobody rights: the bit stays.
        self._directories.describe(path, entry.mode & ~stat.S_ISUID, entry.mtime, uid, gid)

    def _add_symbolic_link(
        self, parent: int, name: bytes, path: bytes, entry: Entry, _archive: Archive
    ) -> None:
        if not 0 < len(entry.link) <= _MAX_TARGET:
            raise ImageContentError(
                f"{shown(entry.name)}: a symbolic link to a name of {len(entry.link)} bytes"
            )
        self._make_way(parent, name, path)
        os.symlink(entry.link, name, dir_fd=parent)
        if self._owned:
            os.chown(name, *_ids(entry), dir_fd=parent, follow_symlinks=False)
        set_time(parent, name, entry)
        self._note(Kind.SYMBOLIC_LINK, path, entry, 0o777, entry.link)

    def _add_hard_link(
        self, parent: int, name: bytes, path: bytes, entry: Entry, _archive: Archive
    ) -> None:
        components = split(entry.link)
        target = components.pop() if components else b""
        opened = self._directories.find(components, entry.link) if target else None
        found = exists(opened[0], target) if opened is not None else None
        if opened is None or found is None or is_whiteout(found):
            raise ImageContentError(
                f"{shown(entry.name)}: a hard link to {shown(entry.link)}, which is not in the "
                "same layer"
            )
        if stat.S_ISDIR(found.st_mode):
            raise ImageContentError(f"{shown(entry.name)}: a hard link to a directory")
        source, place = opened
        target_path = place + b"/" + target if place else target
        if target_path == path:
            return
        if target_path.startswith(path + b"/"):
            raise ImageContentError(f"{shown(entry.name)}: a hard link to what it replaces")
        self._make_way(parent, name, path)
        try:
            os.link(target, name, src_dir_fd=source, dst_dir_fd=parent, follow_symlinks=False)
        except OSError as error:
            if error.errno != errno.EMLINK:
                raise
            raise ImageContentError(
                f"{shown(entry.name)}: more hard links to one file than this file system allows"
            ) from None
        self._record(Record(Kind.HARD_LINK, path, 0, 0, 0, 0, 0, target_path))

    def _add_fifo(
        self, parent: int, name: bytes, path: bytes, entry: Entry, _archive: Archive
    ) -> None:
        self._make_way(parent, name, path)
        os.mkfifo(name, 0o600, dir_fd=parent)
        mode = self._mode(entry)
        if self._owned:
            os.chown(name, *_ids(entry), dir_fd=parent, follow_symlinks=False)
        # Nobody else can replace it by a link meanwhile: the tree is this user's alone.
        os.chmod(name, mode, dir_fd=parent)
        set_time(parent, name, entry)
        self._note(Kind.FIFO, path, entry, mode, b"")

    def _leave_out_device(
        self, parent: int, name: bytes, path: bytes, entry: Entry, _archive: Archive
    ) -> None:
        self._make_way(parent, name, path)
        self._leave_out("devices", entry)

    def _white_out(self, parent: int, place: bytes, name: bytes, entry: Entry) -> None:
        if name == _OPAQUE:
            self._directories.set_opaque(place)
            return
        if name.startswith(_OTHERS_METADATA):
            return
        deleted = name.removeprefix(_WHITEOUT)
        if deleted in {b"", b".", b".."}:
            raise ImageContentError(f"{shown(entry.name)}: a whiteout that names no file")
        path = place + b"/" + deleted if place else deleted
        found = exists(parent, deleted)
        if found is None:
            make_whiteout(parent, deleted)
            self._record(Record(Kind.WHITEOUT, path, 0, 0, 0, 0, 0, b""))
        elif stat.S_ISDIR(found.st_mode):
            # What a layer has itself, its own whiteouts do not delete.
            self._directories.set_opaque(path)

    def _make_way(self, parent: int, name: bytes, path: bytes) -> None:
        if exists(parent, name) is not None:
            self._remove(parent, name, path)

    def _remove(self, parent: int, name: bytes, path: bytes) -> None:
        """Remove what an earlier entry of the layer made."""

        def removed(gone: bytes) -> None:
            self._record(Record(Kind.REMOVED, gone, 0, 0, 0, 0, 0, b""))

        self._directories.remove(parent, name, path, removed)

    def _mode(self, entry: Entry) -> int:
        if entry.mode & _SET_ID and not self._owned:
            self._leave_out("set-user-ID and set-group-ID bits, without subordinate IDs", entry)
            return entry.mode & ~_SET_ID
        return entry.mode

    def _set_attributes(self, fd: int, entry: Entry) -> None:
        for key, value in (entry.attributes or {}).items():
            wanted = key.startswith(b"user.") and not key.startswith(b"user.overlay.")
            if wanted or (self._owned and key == b"security.capability"):
                try:
                    os.setxattr(fd, key, value)
                except OSError as error:
                    if error.errno == errno.ENOSPC and not _is_full(fd):
                        error.errno = errno.E2BIG  # of ext4: more than a block of attributes
                    if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EIO}:
                        raise
                else:
                    continue
            self._leave_out(f"extended attributes {shown(key)[:64]}", entry)

    def _leave_out(self, what: str, entry: Entry) -> None:
        if what not in self._left_out and len(self._left_out) >= 20:
            what = "other extended attributes"
        self._left_out[what] += 1
        self._examples.setdefault(what, shown(entry.name))

    def _note(self, kind: Kind, path: bytes, entry: Entry, mode: int, check: bytes) -> None:
        uid, gid = self._recorded(entry)
        set_id = 0
        if kind is Kind.FILE and (set_id := entry.mode & _SET_ID & ~mode):
            self.has_owners = True
        self._record(Record(kind, path, mode, uid, gid, entry.size, entry.mtime, check, set_id))

    def _recorded(self, entry: Entry) -> tuple[int, int]:
        """Return the owners of an entry; root's if there are no such IDs."""
        uid, gid = (each if each <= _MAX_ID else 0 for each in (entry.uid, entry.gid))
        self.has_owners = self.has_owners or bool(uid or gid)
        return uid, gid


def _is_full(fd: int) -> bool:
    found = os.fstatvfs(fd)
    return found.f_bavail * found.f_frsize < 1 << 20 or found.f_favail < 16


def _ids(entry: Entry) -> tuple[int, int]:
    if entry.uid > _MAX_ID or entry.gid > _MAX_ID:
        raise ImageContentError(
            f"{shown(entry.name)}: an owner {entry.uid}:{entry.gid}; IDs end at {_MAX_ID}"
        )
    return entry.uid, entry.gid
