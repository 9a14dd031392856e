"""``traincrew run -v`` and ``--env``: additions to every container of a run."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from traincrew.cli.errors import BadInput
from traincrew.cli.jobview.failures import mount_of
from traincrew.cli.manifest.podspecs import mount_paths

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traincrew.cli.manifest.documents import Document
    from traincrew.local.node import HostMount

_UNPRINTABLE = re.compile(r"[^\x21-\x7e]|=")
# Directories of the node itself; a mount there breaks every container.
_RESERVED = ("/dev", "/proc", "/run/traincrew", "/sys", "/var/run/secrets/kubernetes.io")


class Volume(NamedTuple):
    """A file or directory of this machine, mounted into every container.

    Attributes:
        source: An absolute, existing path.
        target: An absolute, normalized path in the container.
        read_only: Whether the mount is read-only.
        text: The option as given.
    """

    source: Path
    target: str
    read_only: bool
    text: str


class VolumeOption(click.ParamType[Volume]):
    """Source and target of a mount, written ``SRC:DST`` or ``SRC:DST:ro``."""

    name = "volume"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Volume:
        """Parse a volume; click reports errors."""
        text = str(value)
        if text.startswith("-"):
            self.fail(f"{text!r} is not SRC:DST (the short form of --verbose is gone)", param, ctx)
        pair, colon, mode = text.rpartition(":")
        if not (colon and mode in {"ro", "rw"}):
            pair, mode = text, "rw"
        source, colon, target = pair.rpartition(":")
        if not (colon and source and target):
            self.fail(f"{text!r} is not SRC:DST; write for example ./data:/data:ro", param, ctx)
        try:
            target = container_path(target)
        except ValueError as error:
            self.fail(f"{text!r}: {error}", param, ctx)
        place = Path(source).expanduser().absolute()
        try:
            exists = place.exists()
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            self.fail(f"{text!r}: cannot use {place}: {reason}", param, ctx)
        if not exists:
            self.fail(
                f"{text!r}: {place} does not exist on this machine: create it, or correct the "
                "part before the colon",
                param,
                ctx,
            )
        return Volume(place, target, mode == "ro", text)

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - click calls it so
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """Complete the part on this machine as a file."""
        return [] if ":" in incomplete else [CompletionItem(incomplete, type="file")]


class VariableOption(click.ParamType[tuple[str, str]]):
    """An environment variable, written ``NAME=VALUE``."""

    name = "variable"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Parse a variable; click reports errors."""
        if isinstance(value, tuple):
            return value
        name, equals, content = str(value).partition("=")
        if not equals:
            self.fail(
                f"{value!r} has no '=': write {value}=VALUE ({value}= for an empty value)",
                param,
                ctx,
            )
        if not name or _UNPRINTABLE.search(name) or "\0" in content:
            self.fail(f"{value!r}: {name!r} cannot be the name of a variable", param, ctx)
        return name, content


def container_path(path: str) -> str:
    """Normalize a path in a container.

    Raises:
        ValueError: The path cannot be mounted or collected.
    """
    if not path.startswith("/"):
        raise ValueError(f"the path in the container is {path!r}: begin it with '/'")
    if ".." in path.split("/"):
        raise ValueError(f"the path in the container, {path!r}, must not contain '..'")
    normal = "/" + os.path.normpath(path).lstrip("/")
    if normal == "/" or any(is_within(normal, place) for place in _RESERVED):
        raise ValueError(f"{normal} of a container belongs to the system: choose another path")
    return normal


def is_within(path: str, directory: str) -> bool:
    """Return whether a normalized path is a directory or below it."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def require_free(volumes: Sequence[Volume], documents: Sequence[Document]) -> None:
    """Check that no volume conflicts with the volume mounts of the manifests.

    Raises:
        BadInput: A conflict; the message has the option, the field of the manifest, and the fix.
    """
    by_target: dict[str, Volume] = {}
    for volume in volumes:
        other = by_target.setdefault(volume.target, volume)
        if other is not volume:
            raise BadInput(
                f"-v {other.text} and -v {volume.text}: both are for {volume.target}; "
                "give each a path of its own"
            )
        for directory, owner in _generated():
            if is_within(volume.target, directory):
                raise BadInput(
                    f"-v {volume.text}: {directory} belongs to the {owner}: choose another path"
                )
    for document in documents:
        for field, name, path, kind in mount_paths(document.content):
            for volume in volumes:
                if problem := _collision(volume, os.path.normpath(path), kind):
                    raise BadInput(
                        f'-v {volume.text}: {document.where}: {field} mounts volume "{name}" at '
                        f"{path}{problem}"
                    )


def _collision(volume: Volume, path: str, kind: str) -> str:
    """Return how a volume conflicts with one of the manifest; empty if it does not."""
    if volume.target == path:
        return ": choose another path for -v, or take the volume out of the manifest"
    if kind == "read-only" and is_within(volume.target, path):
        return ", and nothing can be mounted inside of it: choose another path for -v"
    inside = volume.source / os.path.relpath(path, volume.target)
    if volume.read_only and is_within(path, volume.target) and not inside.exists():
        return f", below a read-only -v: create {inside}, or leave out ':ro'"
    return ""


def without_script(script: str, mounts: Sequence[HostMount]) -> str:
    """Return what to do about a script that a pod did not find.

    Args:
        script: Its absolute path in the pod.
        mounts: What this run mounts already.
    """
    for mount in mounts:
        if is_within(script, mount.target):
            inside = os.path.normpath(mount.source / os.path.relpath(script, mount.target))
            return (
                f"{script} does not exist: -v mounts {mount.source} at {mount.target}, and there is"
                f" no {inside}"
            )
    return f"{script} is not in the environment; mount it: {mount_of(script)}"


def reports_elsewhere(volumes: Sequence[Volume], variables: Mapping[str, str]) -> str:
    """Return the option that takes the place of what reports of progress need; empty if none does.

    Programs then report to somebody else, as with a manifest that has a mount or a variable there
    (`traincrew.plan.shared.reporting`).
    """
    from traincrew.plan.shared.reporting import VARIABLES, overlaps

    for volume in volumes:
        # /var/run is /run in most images.
        if overlaps(volume.target) or overlaps(f"/var{volume.target}"):
            return f"-v {volume.text}"
    return next((f"--env {name}" for name in variables if name in VARIABLES), "")


def _generated() -> list[tuple[str, str]]:
    """Return the directories in which operators mount their own volumes, with the operator."""
    from traincrew.plan.kinds import KINDS

    return [(path, f"{kind.definition.kind} operator") for kind in KINDS for path in kind.mounts]
