"""What image names stand for: environments, and container images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class ImageUser(Struct, frozen=True):
    """The user of an image, by number.

    Attributes:
        uid: The UID.
        gid: The GID.
    """

    uid: int
    gid: int = 0


class ImageRoot(Struct, frozen=True, kw_only=True):
    """The files of a container image, which are the root of its containers.

    Attributes:
        id: What a container's status names it by: `NAME@sha256:…`, or `sha256:…` of its
            configuration if it came from no registry.
        layers: Its directories, lowest first, in the format of overlayfs.
        owned: Those of `layers` in which not all is root's, or which have set-user-ID bits.
        size: Of its files, in bytes.
        user: As its configuration names it; empty for root.
        passwd: Text of its `/etc/passwd`, and `group` of its `/etc/group`.
        volumes: Directories that can be written also if the root is read-only.
        stop_signal: What ends its programs.
        place: Directory of the store on which a container holds a shared lock: its image is not
            removed. None if nobody removes it.
    """

    id: str
    layers: tuple[Path, ...]
    size: int
    user: str = ""
    passwd: str = ""
    group: str = ""
    volumes: tuple[str, ...] = ()
    stop_signal: str = "SIGTERM"
    place: Path | None = None
    owned: frozenset[Path] = frozenset()


class Environment(Struct, frozen=True):
    """A built environment, or a container image: everything a container needs from its image.

    It is shared by all pods of that image and may be mounted read-only.

    Attributes:
        name: Its name in the catalog; of a container image, the image's.
        prefix: Root of the Python environment (``bin/python`` is in it); None for host tools.
        variables: The image's environment variables, including ``PATH``. Those of the container
            override them, as with a real image.
        files: Path in the pod -> the file or directory of this machine that is mounted there.
        working_directory: For containers that set none.
        command: The image's entrypoint, for containers without ``command``.
        arguments: The image's default arguments, for containers with neither ``command``
            nor ``args``.
        own_ports: Every port its programs listen on belongs to their pod; otherwise only those
            the manifest declares, and the others are the machine's.
        user: The user of containers that set none; None where the catalog names none.
        root: The container image; None for an environment, whose containers see the machine's
            files.
    """

    name: str
    prefix: Path | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)
    working_directory: str = "/"
    command: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    own_ports: bool = True
    user: ImageUser | None = None
    root: ImageRoot | None = None

    @property
    def image_id(self) -> str:
        """What the status of a container names its image by."""
        return f"traincrew://{self.name}" if self.root is None else self.root.id

    @property
    def used(self) -> str:
        """What it is, for users."""
        if self.root is None:
            return f"environment {self.name}"
        return f"image {self.root.id.rpartition('@')[2][:19]}, {self.root.size / 1e6:.0f} MB"


class EnvironmentStatus(Struct, frozen=True):
    """One entry of the catalogs and whether it is ready.

    Attributes:
        name: Its name in the catalog.
        images: The image names and patterns that stand for it.
        origin: Where it is defined, as text for users.
        path: Where it is or would be built; None if nothing is built for it.
        is_ready: Whether a pull would have nothing to build, and succeed.
        python: Its Python: versions ("3.11 or 3.10"), "current", a path, or "" for the tools of
            this machine.
    """

    name: str
    images: tuple[str, ...]
    origin: str
    path: Path | None
    is_ready: bool
    python: str
