"""Building a Python environment into the cache: uv, and a few files.

A virtual environment cannot be moved, so it is built at its final path, and a marker file, written
last, marks it as complete (`traincrew.local.images.trees`). A lock file keeps other processes out;
the programs that do the work inherit the lock, so that even those of a killed builder finish before
the next one starts over.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import platform
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from traincrew.local.directories import make_directory, remove_tree, write_new
from traincrew.local.images import hashes
from traincrew.local.images.catalog import PACKAGES, PREFIX, Definition
from traincrew.local.images.checks import check_writable, is_copyable
from traincrew.local.images.cleanup import DOWNLOADS_LOCK, sweep, sweep_downloads
from traincrew.local.images.errors import BuildError
from traincrew.local.images.installation import torch_builds
from traincrew.local.images.installation.uv import Notice, Uv
from traincrew.local.images.installation.uv_output import advice, failure_reason, is_network_failure
from traincrew.local.images.interpreters import (
    Interpreter,
    InterpreterNotFoundError,
    find_interpreter,
)
from traincrew.local.images.launchers import repair_scripts
from traincrew.local.images.locks import hold, share
from traincrew.local.images.manifest import summary
from traincrew.local.images.trees import (
    Marker,
    Seals,
    current_tree,
    finish,
    is_complete,
    next_tree,
    recipe_of,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

__all__ = ["BuildError", "build", "environment_path", "remove"]

_FORMAT = 3
"""Part of every recipe: raised when trees that exist are not to be used any more."""

Progress = Callable[[str], None]


def environment_path(cache: Path, definition: Definition) -> Path:
    """Return the path of an environment's first generation: the same recipe gives the same path.

    Name, images, variables and files in the pod are not part of the recipe, so environments
    that differ only in those share one directory.
    """
    assert definition.python is not None
    recipe = {
        "format": _FORMAT,
        "machine": f"{sys.platform}-{platform.machine()}",
        "versions": definition.python.versions,
        "build": definition.build_requirements,
        "requirements": definition.requirements,
        "pip": definition.pip_arguments,
        "torch": torch_builds.variant(definition.requirements),
        "files": {
            target: hashlib.sha256(source.read_bytes()).hexdigest() if is_copyable(source) else None
            for target, source in _own_files(definition).items()
        },
    }
    if definition.hashes:
        recipe["hashes"] = [
            hashlib.sha256(file.read_bytes()).hexdigest() for file in definition.hashes
        ]
    digest = hashlib.sha256(msgspec.json.encode(recipe, order="sorted")).hexdigest()
    return cache / "environments" / digest[:16]


async def build(
    recipe: Path, definition: Definition, progress: Progress, seals: Seals, *, anew: bool = False
) -> Path:
    """Return the tree of a recipe that is complete and undamaged; build one if there is none.

    A damaged tree is left to the pods that use it, and the next generation takes its place.

    Args:
        recipe: From `environment_path`.
        definition: What to build.
        progress: Receives lines for users.
        seals: What this process knows of trees.
        anew: Build one in any case.

    Raises:
        BuildError: It cannot be built.
    """
    cache = recipe.parent.parent
    tree = current_tree(recipe)
    if tree is not None and not anew and await _is_sound(tree, definition, progress, seals):
        return tree
    check_writable(cache, definition.name)

    def wait() -> None:
        progress("waiting for another process that builds this environment")

    try:
        await asyncio.to_thread(sweep, cache)
        async with hold(recipe.with_suffix(".lock"), wait) as lock:
            other = current_tree(recipe)
            if other != tree and other is not None:
                return other
            return await _build(next_tree(recipe), definition, progress, lock)
    except OSError as error:
        raise _failed(error, recipe) from error


async def _is_sound(tree: Path, definition: Definition, progress: Progress, seals: Seals) -> bool:
    """Compare a tree with its manifest unless its seal agrees; report damage."""
    if await asyncio.to_thread(seals.is_unchanged, tree):
        return True
    progress("comparing the environment with its manifest, because something has changed there")
    try:
        damage = await asyncio.to_thread(seals.damage, tree)
    except OSError as error:
        what = f"{error.filename}: {error.strerror}"
    else:
        if not damage:
            return True
        what = summary(damage)
    progress(
        Notice(
            f'environment "{definition.name}" is damaged, so it is built anew: {what}; in {tree}'
        )
    )
    return False


async def _build(tree: Path, definition: Definition, progress: Progress, lock: int) -> Path:
    cache, recipe = tree.parent.parent, recipe_of(tree)
    temporary = cache / "temporary" / recipe.name
    try:
        async with share(cache / DOWNLOADS_LOCK) as downloads:
            make_directory(temporary)
            log = recipe.with_suffix(".log")
            write_new(log, b"")
            uv = Uv(cache, temporary, log, progress, (lock, downloads))
            await _Build(tree, definition, progress, uv, log, temporary=temporary).run()
        return tree
    finally:
        # Also on cancellation: everything is removed before the lock is released.
        shutil.rmtree(temporary, ignore_errors=True)
        if not is_complete(tree):
            with contextlib.suppress(OSError):
                remove_tree(tree)
        sweep_downloads(cache)


async def remove(path: Path, progress: Progress) -> None:
    """Remove the tree of an environment at `path`; a missing one is no error.

    Raises:
        BuildError: It cannot be removed.
    """

    def wait() -> None:
        progress("waiting for another process that builds this environment")

    try:
        async with hold(recipe_of(path).with_suffix(".lock"), wait):
            await _remove_tree(path)
            if current_tree(recipe_of(path)) is None:
                recipe_of(path).with_suffix(".log").unlink(missing_ok=True)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _failed(error, path) from error


async def _remove_tree(path: Path) -> None:
    # Moved aside first, so that an interrupted removal leaves no complete one; and after a
    # cancellation the thread continues to delete, but not at the path where the next build starts.
    aside = path.with_name(f"{path.name}.removed-{uuid.uuid4().hex[:8]}")
    path.rename(aside)  # noqa: ASYNC240 - an instant, unlike what follows
    path.with_suffix(".seal").unlink(missing_ok=True)
    await asyncio.to_thread(remove_tree, aside)


def _failed(error: OSError, path: Path) -> BuildError:
    full = error.errno == errno.ENOSPC
    fix = ": free some disk space, or move the cache (TRAINCREW_CACHE)" if full else ""
    return BuildError(f"{error.filename or path}: {error.strerror or error}{fix}")


class _Build:
    def __init__(
        self,
        path: Path,
        definition: Definition,
        progress: Progress,
        uv: Uv,
        log: Path,
        *,
        temporary: Path,
    ) -> None:
        self.temporary = temporary
        self.hashes = hashes.read(definition.hashes)
        self.path = path
        self.definition = definition
        self.progress = progress
        self.uv = uv
        self.log = log

    async def run(self) -> None:
        definition = self.definition
        assert definition.python is not None
        started = time.monotonic()
        interpreter = await self._interpreter(definition.python.versions)
        self.progress(f"Python {interpreter.version} ({interpreter.executable})")
        with contextlib.suppress(FileNotFoundError):
            await _remove_tree(self.path)
        await self._venv(interpreter)
        if definition.build_requirements:
            await self._install("build requirement", definition.build_requirements, ())
        if definition.requirements:
            isolation = ("--no-build-isolation",) if definition.build_requirements else ()
            # Compiled here (all packages are, pip too), because pods cannot write the environment,
            # or write an overlay of their own: each would compile again.
            compiled = (*isolation, "--compile-bytecode", *definition.pip_arguments)
            await self._install_requirements(compiled)
        await asyncio.to_thread(self._add_files, interpreter)
        seconds = time.monotonic() - started
        marker = Marker(
            name=definition.name,
            recipe=recipe_of(self.path).name,
            manifest="",
            python=interpreter.version,
            interpreter=str(interpreter.executable),
            requirements=definition.requirements,
            seconds=round(seconds, 1),
        )
        self.progress("noting what its files contain")
        await asyncio.to_thread(finish, self.path, marker)
        self.progress(f"environment ready in {time.monotonic() - started:.1f} s")

    async def _interpreter(self, versions: tuple[str, ...]) -> Interpreter:
        downloaded = self.path.parent.parent / "python"
        try:
            return await find_interpreter(versions, downloaded)
        except InterpreterNotFoundError as error:
            version = versions[0]
            what = f"downloading Python {version}"
            arguments = ("python", "install", "--no-bin", version)
            if await self.uv.run(what, *arguments):
                raise BuildError(
                    f"{error}; uv could not download one: {failure_reason(self.uv.lines)}",
                ) from error
            return await find_interpreter((version,), downloaded)

    async def _venv(self, interpreter: Interpreter) -> None:
        arguments = ("venv", "--no-project", "--python", str(interpreter.executable))
        if await self.uv.run(
            "creating the environment",
            *arguments,
            "--",
            str(self.path),
            UV_PYTHON_DOWNLOADS="never",
        ):
            raise BuildError(
                f"the environment could not be created: {failure_reason(self.uv.lines)}"
            )
        # Jobs may use pip. The wheel bundled with every complete Python needs no network.
        bundled = [str(wheel) for wheel in interpreter.bundled_wheels]
        offline = ("--no-index", "--no-deps") if bundled else ()
        compiled = () if self.definition.requirements else ("--compile-bytecode",)
        await self._uv_pip("installing pip", (*offline, *compiled, "--", *(bundled or ["pip"])))

    async def _install_requirements(self, arguments: tuple[str, ...]) -> None:
        requirements = self.definition.requirements
        for choice in torch_builds.choices(requirements, self.definition.pip_arguments):
            # The hashes are those of the index, which has other builds.
            wanted = self._wanted(choice.requirements, without=("torch",))
            tried = (*choice.arguments, *arguments, "--dry-run", *wanted)
            variables = {"UV_HTTP_TIMEOUT": "5", "UV_HTTP_RETRIES": "0"}
            what = "asking for PyTorch without CUDA"
            if not await self.uv.run(what, *self._pip_install(), *tried, **variables):
                await self._install(
                    "requirement", choice.requirements, (*choice.arguments, *arguments), wanted
                )
                return
            self.progress(torch_builds.REFUSED)
        await self._install("requirement", requirements, arguments)

    async def _install(
        self,
        what: str,
        requirements: tuple[str, ...],
        arguments: tuple[str, ...],
        wanted: tuple[str, ...] = (),
    ) -> None:
        # All in one command: a second one could replace packages that the first one installed.
        count = len(requirements)
        words = f"installing {count} {what}{'s' if count != 1 else ''}"
        await self._uv_pip(words, (*arguments, *(wanted or self._wanted(requirements))))

    def _wanted(
        self, requirements: tuple[str, ...], without: Collection[str] = ()
    ) -> tuple[str, ...]:
        """Return arguments for requirements, in a file with hashes if there are any."""
        if not self.hashes:
            return ("--", *requirements)
        lines, complete = hashes.hashed(requirements, self.hashes, without)
        file = self.temporary / "requirements.txt"
        file.write_text("\n".join([*lines, ""]), encoding="utf-8")
        return (*(("--require-hashes",) if complete else ()), "--requirements", str(file))

    def _pip_install(self) -> tuple[str, ...]:
        return ("pip", "install", "--python", str(self.path / "bin" / "python"))

    async def _uv_pip(self, what: str, arguments: tuple[str, ...]) -> None:
        never = {"UV_PYTHON_DOWNLOADS": "never"}
        if await self.uv.run(what, *self._pip_install(), *arguments, **never):
            lines = list(self.uv.lines)
            raise BuildError(
                f"uv could not install the requirements: {failure_reason(lines)}"
                f"{advice(lines)}; all of uv's output is in {self.log}",
                permanent=not is_network_failure(lines),
            )

    def _add_files(self, interpreter: Interpreter) -> None:
        version = ".".join(interpreter.version.split(".")[:2])
        packages = self.path / "lib" / f"python{version}" / "site-packages"
        modules = []
        for target, source in _own_files(self.definition).items():
            destination = packages / target[1:] if target.startswith("=") else self.path / target
            make_directory(destination.parent)
            write_new(destination, source.read_bytes())
            if destination.suffix == ".py":
                modules.append(str(destination))
        repair_scripts(self.path)
        if modules:
            # Later nobody can write the compiled modules, except root, whom the modes do not hold.
            command = [str(interpreter.executable), "-I", "-m", "compileall", "-q", *modules]
            subprocess.run(command, capture_output=True, check=False)


def _own_files(definition: Definition) -> Mapping[str, Path]:
    """Return the files that belong inside the environment.

    Keys are paths in it; those below its site-packages begin with ``=``.
    """
    found = {}
    for target, source in definition.files.items():
        if target.startswith(PREFIX + "/"):
            found[target.removeprefix(PREFIX + "/")] = source
        elif target.startswith(PACKAGES + "/"):
            found["=" + target.removeprefix(PACKAGES + "/")] = source
    return found
