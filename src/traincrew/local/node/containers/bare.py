"""Bare mode: containers on machines that allow no mounts.

Volumes and files of the image are symbolic links at their paths where this user may create them.
Elsewhere these paths are replaced by the real ones in the container's command and variables. The
variables `TRAINCREW_MOUNT_<NAME>` always hold the paths of the volumes.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from traincrew.local.images import Environment
    from traincrew.local.node.containers.mounts import VolumeMount
    from traincrew.local.node.runtime.instances import Launch

__all__ = ["Arranged", "arrange", "mount_variable", "remove_links", "replace_paths"]


def mount_variable(volume: str) -> str:
    """Return the name of the variable that holds the path of a volume."""
    return "TRAINCREW_MOUNT_" + re.sub(r"[^A-Za-z0-9]", "_", volume).upper()


class Arranged(NamedTuple):
    """The start of a container without mounts.

    Attributes:
        launch: with further variables, the links created, and a working directory that exists.
        command: what to run.
        missing: paths that could not be created; launch and command name the real ones instead.
    """

    launch: Launch
    command: list[str]
    missing: list[str]


def arrange(
    launch: Launch,
    volumes: list[VolumeMount],
    environment: Environment,
    instance: Path,
    *,
    command: list[str],
) -> Arranged:
    """Link volumes and files of the image at their paths, or replace these paths.

    Args:
        launch: How the container is to be started.
        volumes: Its volume mounts.
        environment: Its image.
        instance: An existing directory, used if the working directory does not exist.
        command: Its command line.
    """
    variables = {mount_variable(volume.name): str(volume.source) for volume in volumes}
    links: list[str] = []
    missing: list[str] = []
    replaced: dict[str, str] = {}
    wanted = [(mount.target, mount.source) for mount in volumes]
    wanted += [(target, source) for target, source in environment.files.items()]
    for target, source in wanted:
        if _link(Path(target), source):
            links.append(target)
        else:
            missing.append(target)
            replaced[target.rstrip("/") or "/"] = str(source)
    working_directory = launch.working_directory
    working_directory = replace_paths(working_directory, replaced)
    if not os.access(working_directory, os.X_OK):
        missing.append(f"{working_directory} (workingDir)")
        working_directory = str(instance)
    given = {name: replace_paths(text, replaced) for name, text in launch.environment.items()}
    launch = msgspec.structs.replace(
        launch,
        environment={**variables, **given},
        working_directory=working_directory,
        links=links,
    )
    return Arranged(launch, [replace_paths(word, replaced) for word in command], missing)


def replace_paths(text: str, replaced: Mapping[str, str]) -> str:
    """Replace paths, and paths below them, that are not part of a longer name.

    Args:
        text: An argument of a command (such as a script), or the value of a variable.
        replaced: The real path by the path to be replaced; both absolute.
    """
    if not replaced:
        return text
    # Longest first: one path may be below another.
    paths = "|".join(re.escape(path) for path in sorted(replaced, key=len, reverse=True))
    return re.sub(
        rf"(?<![\w./~-])(?:{paths})(?![\w.-])", lambda found: replaced[found.group()], text
    )


def _link(target: Path, source: Path) -> bool:
    if target.is_symlink():
        if target.lstat().st_uid != os.geteuid():
            return False  # its owner could redirect it at any time
        # Left by a container that was not cleaned up, or the same volume of another container.
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
    """Remove the links of an instance that has ended."""
    for link in links:
        path = Path(link)
        with contextlib.suppress(OSError):
            if path.is_symlink():
                path.unlink()
