"""What appears where in a container: volumes, the image's files, and the node's own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import traincrew
from traincrew.local.node.environment import expand
from traincrew.local.node.launcher import Mount
from traincrew.local.node.payloads import is_api_volume
from traincrew.local.node.volumes import VolumeError

if TYPE_CHECKING:
    from traincrew.local.images import Environment

__all__ = [
    "KUBECONFIG",
    "TOOLS",
    "VolumeMount",
    "image_mounts",
    "node_mounts",
    "ordered",
    "volume_mounts",
]

Document = Mapping[str, Any]

_OWN = "/run/traincrew"
KUBECONFIG = f"{_OWN}/kubeconfig"
TOOLS = f"{_OWN}/bin"
# Replaced by fresh ones in every container, so what an image needs there must be shown again.
_FRESH = ("/tmp/", "/run/", "/dev/", "/var/run/")  # noqa: S108  # compared, not used

# Larger files of images, in bytes, are mounted: copies are in memory, one for each container.
_LARGEST_COPY = 1024 * 1024


class VolumeMount:
    """One `volumeMounts` entry, resolved: `source` on this machine appears at `target`."""

    def __init__(self, name: str, source: Path, target: str, *, read_only: bool) -> None:
        self.name = name
        self.source = source
        self.target = target
        self.read_only = read_only

    def as_mount(self) -> Mount:
        """For the sandbox."""
        return Mount("bind", self.target, str(self.source), read_only=self.read_only)


def volume_mounts(
    spec: Document,
    container: Document,
    place: Callable[[str], Path],
    variables: Mapping[str, str],
) -> list[VolumeMount]:
    """The volume mounts of a container; missing sub-directories are created.

    Args:
        spec: Of the pod.
        container: Of its spec.
        place: Where a volume is.
        variables: For `subPathExpr`.

    Raises:
        VolumeError: A volume is not there, or a sub-path leads out of it.
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
        if sub_path:
            source = _below(source, sub_path, create=not is_api_volume(volume))
        mounts.append(
            VolumeMount(
                name,
                source,
                os.path.normpath(entry["mountPath"]),
                read_only=read_only or bool(claim.get("readOnly")),
            )
        )
    return mounts


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
    """How to show a file of an image: programs may change and replace it, as in an image."""
    if source.is_dir():
        return "overlay"
    return "copy" if source.stat().st_size <= _LARGEST_COPY else "bind"


def image_mounts(environment: Environment) -> list[Mount]:
    """The image's files, and its interpreter where it would be hidden."""
    mounts = [
        Mount(_kind(source), os.path.normpath(target), str(source.resolve()), read_only=True)
        for target, source in environment.files.items()
    ]
    prefixes = {Path(sys.prefix), Path(sys.base_prefix), Path(traincrew.__file__).parents[1]}
    if environment.prefix is not None:
        prefixes.add(environment.prefix)
        interpreter = (environment.prefix / "bin" / "python3").resolve()
        prefixes.add(interpreter.parents[1])
    hidden = {str(prefix) for prefix in prefixes if str(prefix).startswith(_FRESH)}
    mounts += [
        Mount("overlay", prefix, str(Path(prefix).resolve()))
        for prefix in hidden
        if not any(prefix.startswith(other + "/") for other in hidden)
    ]
    return mounts


def node_mounts(
    *,
    instance: Path,
    hosts: Path,
    hostname: str,
    shared_memory: Path,
    kubectl: Path | None,
    termination_log: str,
    working_directory: str,
) -> list[Mount]:
    """What the node puts into every container.

    Args:
        instance: Directory of the instance, with its `kubeconfig` and `termination-log`.
        hosts: Directory whose file `hosts` is to be `/etc/hosts`.
        hostname: For `/etc/hostname`.
        shared_memory: For `/dev/shm`, shared by the pod's containers.
        kubectl: The program, if there is one.
        termination_log: `terminationMessagePath`.
        working_directory: Made if it is missing.
    """
    mounts = [
        # A link, so that a new version of the file, put in place by a rename, is seen.
        Mount("bind", f"{_OWN}/etc", str(hosts), read_only=True),
        Mount("symlink", "/etc/hosts", to=f"{_OWN}/etc/hosts"),
        Mount("file", "/etc/hostname", content=f"{hostname}\n"),
        Mount("bind", "/dev/shm", str(shared_memory)),  # noqa: S108  # the pod's own
        Mount("bind", KUBECONFIG, str(instance / "kubeconfig"), read_only=True),
        Mount("bind", os.path.normpath(termination_log), str(instance / "termination-log")),
        Mount("directory", os.path.normpath(working_directory)),
    ]
    if kubectl is not None:
        mounts.append(Mount("bind", f"{TOOLS}/kubectl", str(kubectl), read_only=True))
    return mounts


def ordered(*groups: list[Mount]) -> list[Mount]:
    """One mount per path; later groups win."""
    by_target: dict[str, Mount] = {}
    for group in groups:
        for mount in group:
            existing = by_target.get(mount.target)
            if existing is None or mount.kind != "directory":
                by_target[mount.target] = mount
    return list(by_target.values())
