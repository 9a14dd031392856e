"""The mounts of a container: volumes, files of the image, and files of the node."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from traincrew.local.node.fields.environment import expand
from traincrew.local.node.runtime.processes import Mount
from traincrew.local.node.volumes.payloads import is_api_volume
from traincrew.local.node.volumes.podvolumes import VolumeError

if TYPE_CHECKING:
    from traincrew.local.images import Environment
    from traincrew.local.node.containers.imagevolumes import ImagePart, ImageVolume
    from traincrew.local.node.machine.specs import HostMount

__all__ = [
    "KUBECONFIG",
    "TOOLS",
    "VolumeMount",
    "hidden_mounts",
    "host_mounts",
    "image_mounts",
    "image_programs",
    "is_within",
    "node_mounts",
    "ordered",
    "volume_mounts",
]

Document = Mapping[str, Any]

_OWN = "/run/traincrew"
KUBECONFIG = f"{_OWN}/kubeconfig"
TOOLS = f"{_OWN}/bin"
# Replaced by empty ones in every container, so what an image needs there must be mounted again.
_FRESH = ("/tmp/", "/run/", "/dev/", "/var/run/")  # noqa: S108  # compared, not used

# The directory that contains this package, where pods find it.
_PACKAGES = Path(__file__).resolve().parents[4]

# Larger files of images, in bytes, are mounted: copies are in memory, one for each container.
_LARGEST_COPY = 1024 * 1024


class VolumeMount:
    """One resolved `volumeMounts` entry: `source` on this machine is mounted at `target`.

    Attributes:
        image: what is mounted in its place.
    """

    def __init__(
        self,
        name: str,
        source: Path,
        target: str,
        *,
        read_only: bool,
        image: ImagePart | None = None,
    ) -> None:
        self.name = name
        self.source = source
        self.target = target
        self.read_only = read_only
        self.image = image

    def as_mount(self) -> Mount:
        """Return the mount for the sandbox."""
        if (image := self.image) is not None:
            return Mount(
                "image", self.target, image.path, layers=image.layers, is_file=image.is_file
            )
        return Mount("bind", self.target, str(self.source), read_only=self.read_only)


def volume_mounts(
    spec: Document,
    container: Document,
    place: Callable[[str], Path],
    variables: Mapping[str, str],
    images: Mapping[str, ImageVolume] = MappingProxyType({}),
) -> list[VolumeMount]:
    """Resolve the volume mounts of a container; create missing sub-directories.

    Args:
        spec: Of the pod.
        container: Of its spec.
        place: Returns the path of a volume.
        variables: For `subPathExpr`.
        images: The volumes that are images.

    Raises:
        VolumeError: A volume does not exist, or a sub-path leads out of it.
    """
    volumes = {volume["name"]: volume for volume in spec.get("volumes") or ()}
    mounts = []
    for entry in container.get("volumeMounts") or ():
        name = entry["name"]
        source = place(name).resolve()
        volume = volumes[name]
        read_only = bool(entry.get("readOnly")) or is_api_volume(volume)
        claim = volume.get("persistentVolumeClaim") or {}
        sub_path = entry.get("subPath") or expand(entry.get("subPathExpr") or "", variables)
        image = images[name].part(sub_path) if name in images else None
        if sub_path and image is None:
            source = _below(source, sub_path, create=not is_api_volume(volume))
        mounts.append(
            VolumeMount(
                name,
                source,
                os.path.normpath(entry["mountPath"]),
                read_only=read_only or image is not None or bool(claim.get("readOnly")),
                image=image,
            )
        )
    return mounts


def host_mounts(mounts: Iterable[HostMount], volumes: list[VolumeMount]) -> list[VolumeMount]:
    """Return the mounts that the node adds to the volume mounts of a container.

    Raises:
        VolumeError: One of the container's volumes is mounted at the same path.
    """
    taken = {volume.target: volume.name for volume in volumes}
    added = []
    for number, mount in enumerate(mounts):
        if (name := taken.get(mount.target)) is not None:
            raise VolumeError(
                f'{mount.source} cannot be mounted at {mount.target}: volume "{name}" is there'
            )
        source = mount.source.resolve()
        added.append(VolumeMount(f"host-{number}", source, mount.target, read_only=mount.read_only))
    return added


def is_within(path: str, directory: str) -> bool:
    """Return whether a normalized path is a directory or below it."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _below(volume: Path, sub_path: str, *, create: bool) -> Path:
    if Path(sub_path).is_absolute() or ".." in Path(sub_path).parts:
        raise VolumeError(f"subPath {sub_path!r} must be relative and must not contain '..'")
    path = (volume / sub_path).resolve()
    if not path.is_relative_to(volume):
        raise VolumeError(f"subPath {sub_path!r} leads out of the volume")
    if not path.exists():
        if not create:
            raise VolumeError(f"subPath {sub_path!r} does not exist in the volume")
        path.mkdir(parents=True)
        path.chmod(0o777)
    return path


def _kind(source: Path) -> str:
    """Return the kind of mount for a file of an image: it must be writable and replaceable."""
    if source.is_dir():
        return "overlay"
    return "copy" if source.stat().st_size <= _LARGEST_COPY else "bind"


def hidden_mounts(paths: Iterable[Path]) -> list[Mount]:
    """Return the mounts that hide what no container may see, such as keys of the cluster."""
    return [Mount("hidden", str(path)) for path in paths]


def image_mounts(
    environment: Environment,
    hidden_by: Iterable[HostMount] = (),
    hidden: Iterable[Path] = (),
) -> list[Mount]:
    """Return the mounts of the image's files, and of its interpreter where it would be hidden.

    Args:
        environment: The image.
        hidden_by: Mounts that hide the image's files below them.
        hidden: What is hidden from all containers.
    """
    covered = tuple(f"{mount.target.rstrip('/')}/" for mount in hidden_by)
    mounts = [
        Mount(_kind(source), os.path.normpath(target), str(source.resolve()), read_only=True)
        for target, source in environment.files.items()
        if not os.path.normpath(target).startswith(covered)
    ]
    prefixes = image_programs(environment)
    empty = (*_FRESH, *(f"{path}/" for path in hidden))
    needed = {str(prefix) for prefix in prefixes if str(prefix).startswith(empty)}
    mounts += [
        Mount("overlay", prefix, str(Path(prefix).resolve()))
        for prefix in needed
        if not any(prefix.startswith(other + "/") for other in needed)
    ]
    return mounts


def image_programs(environment: Environment) -> set[Path]:
    """Return the directories of an image's interpreter and packages, and of this one's."""
    prefixes = {Path(sys.prefix), Path(sys.base_prefix), _PACKAGES}
    if environment.prefix is not None:
        prefixes.add(environment.prefix)
        interpreter = (environment.prefix / "bin" / "python3").resolve()
        prefixes.add(interpreter.parents[1])
    return prefixes


def node_mounts(
    *,
    instance: Path,
    hosts: Path,
    hostname: str,
    shared_memory: Path,
    kubectl: Path | None,
    kubeconfig: bool,
    termination_log: str,
    working_directory: str,
) -> list[Mount]:
    """Return the mounts that the node adds to every container.

    Args:
        instance: Directory of the instance, with its `termination-log`.
        hosts: Directory whose file `hosts` is to be `/etc/hosts`.
        hostname: For `/etc/hostname`.
        shared_memory: For `/dev/shm`, shared by the pod's containers.
        kubectl: Path of the program, if there is one.
        kubeconfig: Whether the instance has a `kubeconfig`.
        termination_log: `terminationMessagePath`.
        working_directory: Created if it is missing.
    """
    mounts = [
        # A link, so that a new version of the file, put in place by a rename, is visible.
        Mount("bind", f"{_OWN}/etc", str(hosts), read_only=True),
        Mount("symlink", "/etc/hosts", to=f"{_OWN}/etc/hosts"),
        Mount("file", "/etc/hostname", content=f"{hostname}\n"),
        Mount("bind", "/dev/shm", str(shared_memory)),  # noqa: S108  # the pod's own
        Mount("bind", os.path.normpath(termination_log), str(instance / "termination-log")),
        Mount("directory", os.path.normpath(working_directory)),
    ]
    if kubeconfig:
        mounts.append(Mount("bind", KUBECONFIG, str(instance / "kubeconfig"), read_only=True))
    if kubectl is not None:
        mounts.append(Mount("bind", f"{TOOLS}/kubectl", str(kubectl), read_only=True))
    return mounts


def ordered(*groups: list[Mount]) -> list[Mount]:
    """Return one mount per path; later groups win."""
    by_target: dict[str, Mount] = {}
    for group in groups:
        for mount in group:
            existing = by_target.get(mount.target)
            if existing is None or mount.kind != "directory":
                by_target[mount.target] = mount
    return list(by_target.values())
