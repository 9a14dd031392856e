"""Runs buildah with a storage of its own below the cache directory."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hack.images import machine
from hack.images.errors import ImageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Report = Callable[[str], None]

# The home directory of a build; pip reads its settings there in every RUN.
HOME = "/root"
# Non-interactive.
QUIET = {"LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
LINES_OF_A_FAILURE = 25


class Workshop:
    """Runs buildah and other programs, one at a time on a machine.

    Args:
        report: Called with lines about the progress.
    """

    def __init__(self, report: Report) -> None:
        self.directory = machine.cache_directory()
        self.storage = self.directory / "storage"
        self.report = report

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the lock that lets only one process build at a time."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.report("another process is building images; waiting for it")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Yield a directory for the duration of a build, on the file system of the cache."""
        path = Path(tempfile.mkdtemp(prefix="build-", dir=self.directory))
        try:
            yield path
        finally:
            shutil.rmtree(path)

    def buildah(self, *words: str, log: Path) -> None:
        """Run buildah on this workshop's storage.

        Raises:
            ImageError: It failed.
        """
        # The driver is the one the storage was created with.
        chosen = self.storage / "driver"
        if not chosen.exists():
            self.storage.mkdir(parents=True, exist_ok=True)
            chosen.write_text("overlay" if overlay_works(self.directory) else "vfs")
        self.run(
            [
                "buildah",
                f"--root={self.storage / 'layers'}",
                f"--runroot={self.storage / 'run'}",
                f"--storage-driver={chosen.read_text()}",
                *words,
            ],
            log,
        )

    def run(self, command: Sequence[str], log: Path) -> None:
        """Run a program with its output in a file.

        Raises:
            ImageError: It failed.
        """
        with log.open("a") as file:
            file.write(f"+ {' '.join(command)}\n")
            file.flush()
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                check=False,
                # Without other engines' settings, and without isolation that an unprivileged
                # container lacks.
                env={**os.environ, "BUILDAH_ISOLATION": "chroot", **QUIET},
            )
        if done.returncode != 0:
            last = "\n".join(log.read_text().splitlines()[-LINES_OF_A_FAILURE:])
            raise ImageError(
                f"{command[0]} failed with exit code {done.returncode}; the end of {log}:\n{last}"
            )

    def settings(self, directory: Path, suite: str) -> list[str]:
        """Return options for ``buildah run`` and ``buildah bud`` with this machine's settings.

        The apt and pip settings are mounted over directories of the base image, so that nothing of
        them, not even an empty file, becomes part of an image.

        Args:
            directory: Where to write them.
            suite: The release of Debian.
        """
        sources, settings, home = (directory / name for name in ("sources", "settings", "home"))
        for path in (sources, settings, home):
            path.mkdir(parents=True)
        (sources / "debian.sources").write_text(machine.apt_sources(suite))
        shutil.copy(Path(__file__).parent / "base" / "apt.conf", settings / "build")
        (settings / "machine").write_text(machine.apt_settings())
        chosen = machine.pip_settings()
        pip = home / ".config" / "pip"
        pip.mkdir(parents=True)
        if certificates := chosen.get("cert"):
            shutil.copy(certificates, pip / "certificates.pem")
            chosen["cert"] = f"{HOME}/.config/pip/certificates.pem"
        lines = [f"{name} = {value}" for name, value in chosen.items()]
        (pip / "pip.conf").write_text("\n".join(["[global]", *lines, ""]))
        return [
            f"--volume={sources}:/etc/apt/sources.list.d:ro",
            f"--volume={settings}:/etc/apt/apt.conf.d:ro",
            f"--volume={home}:{HOME}",
        ]


def overlay_works(directory: Path) -> bool:
    """Return whether this user may mount overlays here; otherwise every layer is a full copy."""
    place = Path(tempfile.mkdtemp(prefix="overlay-", dir=directory))
    lower, upper, work, merged = (place / name for name in ("lower", "upper", "work", "merged"))
    for path in (lower, upper, work, merged):
        path.mkdir()
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    mount = ["mount", "-t", "overlay", "overlay", "-o", options, str(merged)]
    try:
        if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
            return False
        subprocess.run(["umount", str(merged)], check=True)
        return True
    finally:
        shutil.rmtree(place)
