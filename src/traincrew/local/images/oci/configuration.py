"""Bytes of an image's configuration -> checked values.

Format: OCI image specification 1.1 ("config"), whose fields are those of Docker.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from traincrew.local.images.errors import ImageContentError
from traincrew.local.images.oci.documents import MAX_CONFIG, MAX_LAYERS, check_digest, decode
from traincrew.local.images.oci.model import Descriptor, ImageConfig
from traincrew.local.images.oci.platforms import Platform, platform_rank

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["parse_config"]


class _RawSettings(Struct):
    Entrypoint: list[str] | None = None
    Cmd: list[str] | None = None
    Env: list[str] | None = None
    WorkingDir: str | None = None
    User: str | None = None
    Volumes: dict[str, Any] | None = None
    StopSignal: str | None = None
    Labels: dict[str, str] | None = None


class _RawFileSystem(Struct):
    diff_ids: list[str] | None = None
    type: str = "layers"


class _RawConfig(Struct):
    rootfs: _RawFileSystem
    config: _RawSettings | None = None
    os: str = ""
    architecture: str = ""
    variant: str = ""


def parse_config(
    data: bytes, layers: Sequence[Descriptor] | None, platform: Platform
) -> ImageConfig:
    """Read the configuration of an image.

    Args:
        data: the document, whose digest the caller has checked.
        layers: of its manifest; None if it has none.
        platform: of this machine.

    Raises:
        ImageContentError: It is wrong, has other layers than the manifest, or is for another
            platform.
    """
    if len(data) > MAX_CONFIG:
        raise ImageContentError(f"its configuration has more than {MAX_CONFIG >> 20} MiB")
    raw: _RawConfig = decode(data, _RawConfig, "configuration")
    own = Platform(raw.os or "linux", raw.architecture or platform.architecture, raw.variant)
    if platform_rank(own, platform) is None:
        raise ImageContentError(
            f"it is for {own}, and this machine runs {platform.os}/{platform.architecture}"
        )
    diff_ids = tuple(raw.rootfs.diff_ids or ())
    if raw.rootfs.type != "layers":
        raise ImageContentError(f'its configuration has a rootfs of type "{raw.rootfs.type[:50]}"')
    if len(diff_ids) > MAX_LAYERS:
        raise ImageContentError(
            f"it has {len(diff_ids)} layers; at most {MAX_LAYERS} can be mounted"
        )
    if layers is not None and len(layers) != len(diff_ids):
        raise ImageContentError(
            f"its manifest has {len(layers)} layers and its configuration {len(diff_ids)}"
        )
    for number, diff_id in enumerate(diff_ids):
        check_digest(diff_id, f"rootfs.diff_ids[{number}]")
    return _config(raw.config or _RawSettings(), diff_ids, own)


def _config(raw: _RawSettings, diff_ids: tuple[str, ...], platform: Platform) -> ImageConfig:
    texts = (
        ("Entrypoint", raw.Entrypoint or ()),
        ("Cmd", raw.Cmd or ()),
        ("Env", raw.Env or ()),
        ("WorkingDir", (raw.WorkingDir or "",)),
        ("User", (raw.User or "",)),
        ("Volumes", raw.Volumes or ()),
        ("StopSignal", (raw.StopSignal or "",)),
    )
    for name, values in texts:
        if any("\0" in value for value in values):
            raise ImageContentError(f"its configuration has a NUL character in {name}")
    variables: dict[str, str] = {}
    for line in raw.Env or ():
        name, equals, value = line.partition("=")
        # Without "=" it says that a variable is not set.
        if equals and name:
            variables[name] = value
    return ImageConfig(
        diff_ids=diff_ids,
        entrypoint=tuple(raw.Entrypoint or ()),
        arguments=tuple(raw.Cmd or ()),
        variables=variables,
        working_directory=_absolute(raw.WorkingDir or ""),
        user=raw.User or "",
        volumes=tuple(sorted({_absolute(path) for path in raw.Volumes or ()} - {"/"})),
        stop_signal=raw.StopSignal or "SIGTERM",
        labels=raw.Labels or {},
        operating_system=platform.os,
        architecture=platform.architecture,
    )


def _absolute(path: str) -> str:
    """Return a path without ``..``: relative to the root, which nothing leaves."""
    return "/" + posixpath.normpath("/" + path).lstrip("/")
