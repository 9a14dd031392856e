"""The volumes of a pod as directories of this machine."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from traincrew.engine.errors import ApiError, NotFoundError
from traincrew.engine.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    SERVICE_ACCOUNTS,
)
from traincrew.local.directories import discard_tree
from traincrew.local.node.fields.downward import FieldError, PodFacts
from traincrew.local.node.fields.references import (
    MissingReferenceError,
    Reference,
    volume_references,
)
from traincrew.local.node.sources import fetch
from traincrew.local.node.volumes.atomic_directory import write_directory
from traincrew.local.node.volumes.claims import volume_claim_directory
from traincrew.local.node.volumes.payloads import (
    TokenRequest,
    is_api_volume,
    token_requests,
    volume_files,
)
from traincrew.local.node.waiting import in_thread

if TYPE_CHECKING:
    from pathlib import Path

    from traincrew.engine.client import Client
    from traincrew.local.node.machine.paths import Paths
    from traincrew.local.node.machine.specs import PodOptions

__all__ = ["PodVolumes", "VolumeError", "VolumeNotReadyError"]

Document = Mapping[str, Any]

_HOST_CHECKS: dict[str, tuple[Callable[[int], bool], str]] = {
    "Directory": (stat.S_ISDIR, "a directory"),
    "DirectoryOrCreate": (stat.S_ISDIR, "a directory"),
    "File": (stat.S_ISREG, "a file"),
    "FileOrCreate": (stat.S_ISREG, "a file"),
    "Socket": (stat.S_ISSOCK, "a socket"),
    "CharDevice": (stat.S_ISCHR, "a character device"),
    "BlockDevice": (stat.S_ISBLK, "a block device"),
}


# Controllers create these in every namespace, a moment after its creation.
_ROOT_CA = Reference("ConfigMap", "kube-root-ca.crt")
_ACCOUNT = "default"


class VolumeError(Exception):
    """A volume cannot be set up; the message is for a `FailedMount` event."""


class VolumeNotReadyError(VolumeError):
    """A volume needs what controllers have not done yet: a new namespace's objects, a binding."""


class PodVolumes:
    """The volumes of one pod.

    Args:
        client: The API server.
        paths: The directories of the node.
        options: The directory of claims, and the base of a relative `hostPath`.
        facts: Returns the pod as it is now.
        root: Whether files can belong to others: to the pod's user, and to its `fsGroup`.
    """

    def __init__(
        self,
        client: Client,
        paths: Paths,
        options: PodOptions,
        facts: Callable[[], PodFacts],
        *,
        root: bool,
    ) -> None:
        self._client = client
        self._paths = paths
        self._options = options
        self._facts = facts
        self._root = root
        self._directories: dict[str, Path] = {}

    @property
    def _uid(self) -> str:
        return str(self._facts().metadata["uid"])

    @property
    def _group(self) -> int:
        group = (self._facts().spec.get("securityContext") or {}).get("fsGroup")
        return -1 if group is None or not self._root else int(group)

    def _all(self) -> list[Document]:
        return list(self._facts().spec.get("volumes") or ())

    def directory(self, name: str) -> Path:
        """Return the directory of a prepared volume.

        Raises:
            VolumeError: The pod has no such volume.
        """
        try:
            return self._directories[name]
        except KeyError:
            raise VolumeError(f'volume "{name}" is not one of the pod\'s volumes') from None

    @property
    def follows_api(self) -> bool:
        """Whether a volume shows API objects."""
        return any(is_api_volume(volume) for volume in self._all())

    def references(self) -> set[Reference]:
        """Return the ConfigMaps and Secrets that the volumes show."""
        return {reference for volume in self._all() for reference in volume_references(volume)}

    def token_lifetime(self) -> float | None:
        """Return the seconds until a token has to be renewed; None without tokens."""
        lifetimes = [each.seconds for volume in self._all() for each in token_requests(volume)]
        return min(lifetimes) * 0.8 if lifetimes else None

    async def prepare(self) -> None:
        """Create the volumes that do not exist yet.

        Raises:
            VolumeError: A referenced object is missing; it may be created later.
        """
        for volume in self._all():
            name = volume["name"]
            try:
                self._directories[name] = await self._prepare(volume)
            except (
                VolumeError,
                MissingReferenceError,
                FieldError,
                OSError,
                ValueError,
                ApiError,
            ) as error:
                text = f'MountVolume.SetUp failed for volume "{name}" : {error}'
                kind = type(error) if isinstance(error, VolumeNotReadyError) else VolumeError
                raise kind(text) from error

    async def refresh(self) -> None:
        """Update the volumes that show API objects; if an object is gone, its files stay."""
        for volume in self._all():
            if is_api_volume(volume):
                try:
                    await self._write(volume, self._directory(volume["name"]))
                except (
                    VolumeError,
                    MissingReferenceError,
                    FieldError,
                    OSError,
                    ValueError,
                    ApiError,
                ):
                    continue

    async def _prepare(self, volume: Document) -> Path:
        if is_api_volume(volume):
            directory = self._directory(volume["name"])
            await self._write(volume, directory)
            return directory
        if (host_path := volume.get("hostPath")) is not None:
            return _host_path(host_path, self._options.host_directory)
        if (claim := volume.get("persistentVolumeClaim")) is not None:
            return await self._claim(str(claim.get("claimName", "")))
        if "ephemeral" in volume:
            # The claim that a controller creates for it is named after pod and volume.
            name = f"{self._facts().metadata['name']}-{volume['name']}"
            return await self._claim(name, own=True)
        directory = self._directory(volume["name"])
        if (volume.get("emptyDir") or {}).get("medium") == "Memory":
            directory = self._paths.shared_memory(self._uid) / volume["name"]
        if not directory.exists():
            directory.mkdir(parents=True)
            self._open_up(directory)
        return directory

    def _directory(self, name: str) -> Path:
        return self._paths.volumes(self._uid) / name

    def _open_up(self, directory: Path) -> None:
        """Allow all users of the pod to write, and give new files the pod's group."""
        if self._group >= 0:
            os.chown(directory, -1, self._group)
            directory.chmod(0o2777)
        else:
            directory.chmod(0o777)

    async def _write(self, volume: Document, directory: Path) -> None:
        facts = self._facts()
        sources = await fetch(self._client, facts.namespace, volume_references(volume))
        tokens = {each: await self._token(facts, each) for each in token_requests(volume)}
        if tokens and sources.is_missing(_ROOT_CA):
            raise VolumeNotReadyError('configmap "kube-root-ca.crt" not found')
        files = volume_files(facts, volume, sources, tokens)
        if self._group >= 0:
            # As upstream: files are readable for the group if they are for the owner.
            files = {
                path: file._replace(mode=file.mode | (file.mode & 0o400) >> 3)
                for path, file in files.items()
            }
        write_directory(directory, files, chown=self._root, group=self._group)

    async def _token(self, facts: PodFacts, request: TokenRequest) -> str:
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": [request.audience] if request.audience else [],
                "expirationSeconds": request.seconds,
                "boundObjectRef": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": facts.metadata["name"],
                    "uid": facts.metadata["uid"],
                },
            },
        }
        account = facts.spec.get("serviceAccountName") or _ACCOUNT
        try:
            answer = await self._client.create(
                SERVICE_ACCOUNTS, body, facts.namespace, name=account, subresource="token"
            )
        except NotFoundError as error:
            if account != _ACCOUNT:
                raise
            raise VolumeNotReadyError(str(error)) from error
        return str(answer["status"]["token"])

    async def _claim(self, name: str, *, own: bool = False) -> Path:
        """Return the directory of a claim; `own` if it has to belong to the pod."""
        namespace = self._facts().namespace
        try:
            claim = await self._client.get(PERSISTENT_VOLUME_CLAIMS, name, namespace)
        except NotFoundError as error:
            raise VolumeError(f'persistentvolumeclaim "{name}" not found') from error
        meta, why = claim["metadata"], f"error processing PVC {namespace}/{name}"
        # Whatever has become of it: a pod that runs keeps its claim, also over a restart.
        started = self._has_run()
        if meta.get("deletionTimestamp") and not started:
            raise VolumeError(f"{why}: PVC is being deleted")
        if own and not _is_owned(meta, self._uid):
            raise VolumeError(
                f"PVC {namespace}/{name} was not created for pod "
                f"{namespace}/{self._facts().metadata['name']} (pod is not owner)"
            )
        if (claim.get("status") or {}).get("phase") != "Bound" and not started:
            raise VolumeNotReadyError(f"{why}: PVC is not bound")
        if volume_name := claim["spec"].get("volumeName"):
            place = await self._place(volume_name)
            if place is not None:
                return place
        uid = str(meta["uid"])
        directory = volume_claim_directory(self._paths.claims, self._options, namespace, name, uid)
        if not directory.exists():
            directory.mkdir(parents=True)
            self._open_up(directory)
        return directory

    def _has_run(self) -> bool:
        """Return whether containers of the pod were started, by this node or an earlier one."""
        containers = self._paths.containers(self._uid)
        return containers.is_dir() and any(containers.iterdir())

    async def _place(self, name: str) -> Path | None:
        """Return the path of this machine that a PersistentVolume shows.

        Returns:
            None for sources that are not mounted: the claim is a directory.
        """
        try:
            volume = await self._client.get(PERSISTENT_VOLUMES, name)
        except NotFoundError as error:
            raise VolumeError(f'persistentvolume "{name}" not found') from error
        spec: Document = volume["spec"]
        if (host_path := spec.get("hostPath")) is not None:
            return _host_path(host_path, self._options.host_directory)
        if (local := spec.get("local")) is not None:
            path = self._options.host_directory / str(local.get("path", ""))
            if not path.exists():
                raise VolumeError(f'path "{path}" does not exist')
            return path.resolve()
        return None

    def shows(self, directory: Path) -> bool:
        """Return whether a prepared volume is this directory."""
        return directory in self._directories.values()

    async def remove(self) -> None:
        """Delete the volumes that belong to the pod alone."""
        uid = self._uid
        for directory in (
            self._paths.volumes(uid),
            self._paths.shared_memory(uid),
        ):
            await in_thread(discard_tree, directory)
        self._directories.clear()


def _is_owned(metadata: Document, uid: str) -> bool:
    """Return whether a pod controls an object."""
    references = metadata.get("ownerReferences") or ()
    return any(each.get("controller") and each.get("uid") == uid for each in references)


def _host_path(volume: Document, base: Path) -> Path:
    path = base / str(volume.get("path", ""))
    kind = volume.get("type") or ""
    if kind == "DirectoryOrCreate" and not path.exists():
        path.mkdir(mode=0o755, parents=True)
    elif kind == "FileOrCreate" and not path.exists():
        path.touch(mode=0o644)
    check = _HOST_CHECKS.get(kind)
    if check is None:
        if kind:
            raise ValueError(f"hostPath type {kind!r} is unknown")
        if not path.exists():
            # As container runtimes do for a hostPath without a type.
            path.mkdir(mode=0o755, parents=True)
    elif not path.exists() or not check[0](path.stat().st_mode):
        raise ValueError(f"hostPath type check failed: {path} is not {check[1]}")
    return path.resolve()
