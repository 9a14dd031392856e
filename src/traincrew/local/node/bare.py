"""Bare mode: what can be done for a container where the system allows no mounts.

Volumes are reachable by symbolic links at their mount paths where this user may make them, and in
any case by the variables `TRAINCREW_MOUNT_<NAME>`.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traincrew.local.images import Environment
    from traincrew.local.node.instances import Launch
    from traincrew.local.node.mounts import VolumeMount
    from traincrew.local.node.pod import Pod

__all__ = ["arrange", "mount_variable", "remove_links"]


def mount_variable(volume: str) -> str:
    """The variable that says where a volume is."""
    return "TRAINCREW_MOUNT_" + re.sub(r"[^A-Za-z0-9]", "_", volume).upper()


def arrange(
    pod: Pod,
    launch: Launch,
    volumes: list[VolumeMount],
    environment: Environment,
    instance: Path,
) -> Launch:
    """Do what can be done, and tell the pod what cannot.

    Returns:
        The launch with further variables, the links made, and a working directory that exists.
    """
    variables = {mount_variable(volume.name): str(volume.source) for volume in volumes}
    links: list[str] = []
    missing: list[str] = []
    wanted = [(mount.target, mount.source) for mount in volumes]
    wanted += [(target, source) for target, source in environment.files.items()]
    for target, source in wanted:
        if _link(Path(target), source):
            links.append(target)
        else:
            missing.append(target)
    working_directory = launch.working_directory
    if not os.access(working_directory, os.X_OK):
        missing.append(f"{working_directory} (workingDir)")
        working_directory = str(instance)
    if missing:
        pod.not_emulated([f"{path}: it cannot be made on this machine" for path in missing])
    return msgspec.structs.replace(
        launch,
        environment={**variables, **launch.environment},
        working_directory=working_directory,
        links=links,
    )


def _link(target: Path, source: Path) -> bool:
    if target.is_symlink():
        # Left by a container that did not end properly, or the same volume of another one.
        try:
            return target.resolve(strict=True) == source.resolve()
        except OSError:
            with contextlib.suppress(OSError):
                target.unlink()
    if target.exists() or not os.access(target.parent, os.W_OK):
        return False
    try:
        target.symlink_to(source)
    except OSError:
        return False
    return True


def remove_links(links: Iterable[str]) -> None:
    """Take back the links of an instance that has ended."""
    for link in links:
        path = Path(link)
        with contextlib.suppress(OSError):
            if path.is_symlink():
                path.unlink()
