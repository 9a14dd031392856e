"""The volumes of a pod as directories of this machine."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traincrew.engine.errors import ApiError, NotFoundError
from traincrew.engine.resources import PERSISTENT_VOLUME_CLAIMS, SERVICE_ACCOUNTS
from traincrew.local.node.atomic_directory import write_directory
from traincrew.local.node.fields import FieldError, PodFacts
from traincrew.local.node.payloads import (
    TokenRequest,
    is_api_volume,
    token_requests,
    volume_files,
)
from traincrew.local.node.references import MissingReferenceError, Reference, volume_references
from traincrew.local.node.threads import in_thread

if TYPE_CHECKING:
    from traincrew.local.node.context import Context

__all__ = ["NamespaceNotReadyError", "PodVolumes", "VolumeError"]

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


# What controllers put into every namespace, a moment after it was made.
_ROOT_CA = Reference("ConfigMap", "kube-root-ca.crt")
_ACCOUNT = "default"


class VolumeError(Exception):
    """A volume cannot be set up; the message is that of a `FailedMount` event."""


class NamespaceNotReadyError(VolumeError):
    """A volume needs what every namespace gets, and this one is too new to have it."""


class PodVolumes:
    """The volumes of one pod.

    Args:
        context: The node.
        facts: The pod, as it is now.
        group: `fsGroup`, if it can be honoured.
    """

    def __init__(self, context: Context, facts: Callable[[], PodFacts], group: int | None) -> None:
        self._context = context
        self._facts = facts
        self._group = -1 if group is None else group
        self._places: dict[str, Path] = {}

    @property
    def _uid(self) -> str:
        return str(self._facts().metadata["uid"])

    def _all(self) -> list[Document]:
        return list(self._facts().spec.get("volumes") or ())

    def place(self, name: str) -> Path:
        """Where a prepared volume is.

        Raises:
            VolumeError: The pod has no such volume.
        """
        try:
            return self._places[name]
        except KeyError:
            raise VolumeError(f'volume "{name}" is not one of the pod\'s volumes') from None

    @property
    def follows_api(self) -> bool:
        """Whether a volume shows API objects."""
        return any(is_api_volume(volume) for volume in self._all())

    def references(self) -> set[Reference]:
        """The ConfigMaps and Secrets the volumes show."""
        return {reference for volume in self._all() for reference in volume_references(volume)}

    def token_lifetime(self) -> float | None:
        """Seconds until a token has to be renewed; None without tokens."""
        lifetimes = [each.seconds for volume in self._all() for each in token_requests(volume)]
        return min(lifetimes) * 0.8 if lifetimes else None

    async def prepare(self) -> None:
        """Create what is not there yet.

        Raises:
            VolumeError: Something is missing; it may come yet.
        """
        for volume in self._all():
            name = volume["name"]
            try:
                self._places[name] = await self._prepare(volume)
            except (
                VolumeError,
                MissingReferenceError,
                FieldError,
                OSError,
                ValueError,
                ApiError,
            ) as error:
                text = f'MountVolume.SetUp failed for volume "{name}" : {error}'
                kind = type(error) if isinstance(error, NamespaceNotReadyError) else VolumeError
                raise kind(text) from error

    async def refresh(self) -> None:
        """Bring the volumes that show API objects up to date; what is gone stays as it was."""
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
            return _host_path(host_path)
        claim = volume.get("persistentVolumeClaim") or {}
        if "ephemeral" in volume:
            # The claim a controller makes for it has the name of pod and volume.
            claim = {"claimName": f"{self._facts().metadata['name']}-{volume['name']}"}
        if claim:
            return await self._claim(str(claim.get("claimName", "")))
        directory = self._directory(volume["name"])
        if (volume.get("emptyDir") or {}).get("medium") == "Memory":
            directory = self._context.paths.shared_memory(self._uid) / volume["name"]
        if not directory.exists():
            directory.mkdir(parents=True)
            self._open_up(directory)
        return directory

    def _directory(self, name: str) -> Path:
        return self._context.paths.volumes(self._uid) / name

    def _open_up(self, directory: Path) -> None:
        """Let every user of the pod write, and new files have the pod's group."""
        if self._group >= 0:
            os.chown(directory, -1, self._group)
            directory.chmod(0o2777)
        else:
            directory.chmod(0o777)

    async def _write(self, volume: Document, directory: Path) -> None:
        facts = self._facts()
        sources = await self._context.fetch(facts.namespace, volume_references(volume))
        tokens = {each: await self._token(facts, each) for each in token_requests(volume)}
        if tokens and sources.lack(_ROOT_CA):
            raise NamespaceNotReadyError('configmap "kube-root-ca.crt" not found')
        files = volume_files(facts, volume, sources, tokens)
        if self._group >= 0:
            # As upstream: the group may read what the owner may.
            files = {
                path: file._replace(mode=file.mode | (file.mode & 0o400) >> 3)
                for path, file in files.items()
            }
        write_directory(directory, files, group=self._group)

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
            answer = await self._context.client.create(
                SERVICE_ACCOUNTS, body, facts.namespace, name=account, subresource="token"
            )
        except NotFoundError as error:
            if account != _ACCOUNT:
                raise
            raise NamespaceNotReadyError(str(error)) from error
        return str(answer["status"]["token"])

    async def _claim(self, name: str) -> Path:
        namespace = self._facts().namespace
        client = self._context.client
        try:
            claim = await client.get(PERSISTENT_VOLUME_CLAIMS, name, namespace)
        except NotFoundError as error:
            raise VolumeError(f'persistentvolumeclaim "{name}" not found') from error
        directory = self._context.paths.claims / namespace / str(claim["metadata"]["uid"])
        if not directory.exists():
            directory.mkdir(parents=True)
            self._open_up(directory)
        return directory

    async def remove(self) -> None:
        """Delete what belongs to the pod alone."""
        uid = self._uid
        for directory in (
            self._context.paths.volumes(uid),
            self._context.paths.shared_memory(uid),
        ):
            await in_thread(shutil.rmtree, directory, ignore_errors=True)
        self._places.clear()


def _host_path(volume: Document) -> Path:
    path = Path(volume.get("path", ""))
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
            # As container runtimes do with the source of a mount that names no type.
            path.mkdir(mode=0o755, parents=True)
    elif not path.exists() or not check[0](path.stat().st_mode):
        raise ValueError(f"hostPath type check failed: {path} is not {check[1]}")
    return path.resolve()
