"""Builds a file that container runtimes can load from a Dockerfile."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from hack.images import catalog, debian, lock, machine, programs
from hack.images.archive import Archive
from hack.images.errors import Unavailable
from hack.images.workshop import Workshop

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hack.images.catalog import File, Image
    from hack.images.workshop import Report

KEPT = 2
OPTIONS = ("--layers", "--identity-label=false", "--pull-never", "--network=host")


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def build(name: str, *, report: Report = _say, locked: bool = True) -> Path:
    """Build an image, unless it was built before from the same files.

    Args:
        name: One of `names`.
        report: Called with lines about the progress.
        locked: Refuse Debian packages that are not in the lock file.

    Returns:
        A docker-archive, for ``docker load`` and ``ctr images import``; its bill of materials is
        beside it.

    Raises:
        ImageError: There is no such image, or building failed.
        Unavailable: This machine cannot build images.
    """
    wanted = catalog.image(name)
    files = catalog.context(wanted)
    for needed in wanted.needs:
        build(needed, report=report, locked=locked)
    target = _archive(wanted, files)
    if target.exists():
        os.utime(target)
        _describe(wanted, target)
        return target
    lacking = machine.missing()
    if lacking:
        lines = "\n".join(f"  - {line}" for line in lacking)
        raise Unavailable(f"images cannot be built here; missing:\n{lines}")
    for program in wanted.programs:
        programs.build(program, report)
    workshop = Workshop(report)
    with workshop.alone():
        if not target.exists():
            debian.ensure(workshop, catalog.suite(wanted))
            _build(workshop, wanted, files, target, locked=locked)
            _forget(wanted)
    return target


def archive(name: str) -> Path:
    """Return where the image of the current files is, or would be."""
    wanted = catalog.image(name)
    return _archive(wanted, catalog.context(wanted))


def _archive(wanted: Image, files: Mapping[str, File]) -> Path:
    needed = "".join(f" {archive(name).name}" for name in wanted.needs)
    needed += "".join(f" {programs.key(name)}" for name in wanted.programs)
    key = catalog.key(wanted, files, f"{debian.key(catalog.suite(wanted))} {OPTIONS}{needed}")
    return machine.cache_directory() / f"{wanted.name}-{catalog.version()}-{key}.tar"


def _describe(wanted: Image, archive: Path) -> None:
    """Write the bill of materials of an image, unless it is there and current."""
    # Imported here: the rest of this package needs no library.
    from hack.images import materials

    if not materials.is_current(archive):
        materials.write(archive, catalog.suite(wanted), wanted.programs)


def _build(
    workshop: Workshop,
    wanted: Image,
    files: Mapping[str, File],
    target: Path,
    *,
    locked: bool,
) -> None:
    started = time.monotonic()
    log = workshop.directory / f"{wanted.name}.log"
    log.unlink(missing_ok=True)
    workshop.report(f"{wanted.name}: building {wanted.tagged} (log: {log})")
    # Only builds that were killed have left any: this one holds the lock. Their mounts would stay.
    workshop.buildah("rm", "--all", log=log)
    with workshop.scratch() as directory:
        context = directory / "context"
        for path, file in files.items():
            copy = context / path
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.content)
            copy.chmod(0o755 if file.executable else 0o644)
            os.utime(copy, (machine.EPOCH, machine.EPOCH))
        for name in wanted.needs:  # it may have been built long ago, with another storage
            source = f"docker-archive:{archive(name)}"
            workshop.buildah("pull", "--quiet", source, log=log)
        instead = [
            f"--build-context={name}={programs.context(name, directory / 'programs' / name)}"
            for name in wanted.programs
        ]
        workshop.buildah(
            "bud",
            *OPTIONS,
            *instead,
            *workshop.settings(directory / "machine", catalog.suite(wanted)),
            f"--build-arg=VERSION={catalog.version()}",
            *([f"--target={wanted.target}"] if wanted.target else []),
            f"--file={context / wanted.dockerfile}",
            f"--tag={wanted.tagged}",
            str(context),
            log=log,
        )
        made = directory / target.name
        destination = f"docker-archive:{made}:{wanted.tagged}"
        workshop.buildah("push", "--quiet", wanted.tagged, destination, log=log)
        _describe(wanted, made)
        if locked and wanted.name in catalog.IMAGES:  # what is in an example is its user's choice
            packages = Archive(made).packages()
            lock.check(wanted.name, packages, catalog.suite(wanted), workshop.report)
        # The last one is the image, which counts as built when it is there.
        for part in sorted(directory.glob(f"{made.stem}.*"), key=lambda part: part == made):
            part.rename(target.with_name(part.name))
    size = target.stat().st_size / 1e6
    workshop.report(f"{wanted.name}: {size:.0f} MB after {time.monotonic() - started:.0f} s")


def _forget(wanted: Image) -> None:
    """Remove all but the last archives of an image, with what belongs to them."""
    # A version follows the name: there are images whose names begin with this one's.
    found = machine.cache_directory().glob(f"{wanted.name}-[0-9]*.tar")
    for old in sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)[KEPT:]:
        for file in old.parent.glob(f"{old.stem}.*"):
            file.unlink()
