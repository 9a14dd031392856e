"""The requests to the fork server and its answers, as data: containers, commands, mounts.

`sandbox` reads these as JSON: a field that is renamed here must be renamed there.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from traincrew.local.subordinate import IdMap  # noqa: TC001 - decoded

__all__ = [
    "Collect",
    "CommandProcess",
    "ContainerProcess",
    "Join",
    "Mount",
    "OwnPorts",
    "Process",
    "ProcessSettings",
    "Report",
    "RootFilesystem",
    "StartFailedError",
    "Started",
]


class Mount(Struct, frozen=True, omit_defaults=True):
    """A mount or file at a path of the container.

    Attributes:
        kind: `bind` and `overlay` (of `source`), `tmpfs` (of `size` bytes), `symlink` (to `to`),
            `file` (with `content`), `copy` (of the file `source`), `directory` (only created),
            `image` (its `layers`, lowest first, or what it has at `source`; read-only),
            `volume` (a directory of the image that stays writable), `hidden` (what the machine has
            there is replaced by something empty).
        target: the path in the container.
        source: a path of the machine, or of the image, without symbolic links.
        is_file: `source` is a file of the image.
    """

    kind: str
    target: str
    source: str = ""
    read_only: bool = False
    size: int = 0
    to: str = ""
    content: str = ""
    layers: list[str] = []
    is_file: bool = False


class RootFilesystem(Struct, frozen=True):
    """The specification for `sandbox.rootfs.build`.

    Attributes:
        image: directories of an image's layers, lowest first; None for the machine's files.
        masked: `/proc` and `/sys` are protected as container runtimes do it.
        privileged: `/sys` is writable, and `/dev` has every device of the machine.
        gpus: names of NVIDIA's devices that `/dev` has; None for all of them.
        searchable: paths that every user of the container may reach.
        size: bytes that the container may write outside of mounts; 0 for half of the memory.
    """

    base: str
    overlay: bool
    user_namespace: bool
    mounts: list[Mount]
    image: list[str] | None = None
    read_only: bool = False
    masked: bool = True
    privileged: bool = False
    gpus: list[str] | None = None
    searchable: list[str] = []
    size: int = 0


class OwnPorts(Struct, frozen=True):
    """Ports that are the pod's own, not the machine's: see `sandbox.ownports`.

    Attributes:
        address: of the pod.
        ports: the pod's own ports; None for all.
        declared: those that the pod's manifest names.
        redirects: "ADDRESS:PORT" -> the port where the server really listens.
    """

    address: str
    ports: list[int] | None
    declared: list[int] = []
    redirects: dict[str, int] = {}


class Collect(Struct, frozen=True):
    """A path to copy when a container has ended.

    Attributes:
        path: in the container.
        to: a directory of the machine, created if something is copied.
        source: the volume that holds it, as a directory of the machine; empty if none does.
        below: the path in that volume.
        budget: file with the number of bytes that may be copied (see `sandbox.budget`), for a copy
            without caches; empty for a copy of everything.
    """

    path: str
    to: str
    source: str = ""
    below: str = ""
    budget: str = ""


class Report(Struct, frozen=True):
    """A request for `written.json`: what a container wrote outside of volumes.

    Attributes:
        container: its namespace, pod and name, for the report.
    """

    container: tuple[str, str, str]
    collect: list[Collect] = []


class Process(Struct, frozen=True):
    """A unique reference to a process: its PID and its start time in clock ticks since boot."""

    pid: int
    start: int


class Join(Struct, frozen=True):
    """A container whose namespaces of some kinds (as in `/proc/PID/ns`) another one enters."""

    shim: Process
    program: Process
    kinds: list[str]


class ProcessSettings(Struct, frozen=True, kw_only=True):
    """Where, as whom and with which rights the programs of a container run.

    Attributes:
        namespaces: False for a plain process in its own session (bare mode).
        user_namespace: enter one first, because the node is not privileged. `uid` and `gid` are
            then the IDs inside the user namespace, and are required.
        uid: user to run as, None for the node's; likewise `gid` and the supplementary `groups`.
        capabilities: numbers of those that the program may have; None for all of the node's.
        id_map: the users of the user namespace; None for the node's own alone.
    """

    environment: dict[str, str]
    working_directory: str = "/"
    namespaces: bool = True
    user_namespace: bool = False
    uid: int | None = None
    gid: int | None = None
    groups: list[int] | None = None
    no_new_privileges: bool = False
    capabilities: list[int] | None = None
    own_ports: OwnPorts | None = None
    id_map: IdMap | None = None

    def settings(self) -> dict[str, Any]:
        """Return these settings by name, for another program of the container."""
        return {name: getattr(self, name) for name in ProcessSettings.__struct_fields__}


class ContainerProcess(ProcessSettings, frozen=True, kw_only=True, tag="run", tag_field="type"):
    """A container, as specified for its shim.

    Attributes:
        directory: for the files of the shim; one per instance of a container.
        together: end with the fork server, however it ends.
        stdin: the program reads the input of attached clients; otherwise it has no input.
        stdin_once: its input ends with that of the first such client.
        memory_limit: bytes; 0 for none. More than that in its root file system ends it.
        measured: what it writes into its root file system is measured, also without a limit.
        images: directories that are locked, shared, while it runs.
    """

    directory: str
    command: list[str]
    hostname: str = ""
    memory_limit: int = 0
    measured: bool = False
    images: list[str] = []
    rootfs: RootFilesystem | None = None
    tty: bool = False
    stdin: bool = False
    stdin_once: bool = False
    together: bool = False
    report: Report | None = None
    join: Join | None = None


class Started(Struct, frozen=True, rename="camel"):
    """A running container: its shim, its program (PID of the machine), and its start time."""

    shim: Process
    program: Process | None = None
    started_at: str = ""


class CommandProcess(ProcessSettings, frozen=True, kw_only=True, tag="exec", tag_field="type"):
    """A command to run inside a container."""

    shim: Process
    program: Process
    command: list[str]
    tty: bool = False


class StartFailedError(Exception):
    """A program did not start; `reason` is the container state's, in the kubelet's words."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
