"""Building a Python environment into the cache: a venv, pip, and a few files.

A virtual environment cannot be moved, so it is built where it will stay, and a marker file,
written last, says that it is complete. A lock file keeps other processes out; the programs that
do the work inherit the lock, so that even those of a builder that was killed finish before the
next one starts over.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import platform
import shutil
import sys
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from traincrew.local.images.catalog import PREFIX, Definition
from traincrew.local.images.interpreters import Interpreter, find_interpreter
from traincrew.local.images.pip_output import advice, failure_reason, progress_phase
from traincrew.local.images.process import run

if TYPE_CHECKING:
    from pathlib import Path

MARKER = "traincrew-environment.json"

_FORMAT = 1
_LOCK_POLL_SECONDS = 0.2
_LAST_LINES = 400
# What would redirect pip or the interpreter away from the environment that is being built.
_UNWANTED_VARIABLES = (
    "PIP_PREFIX",
    "PIP_REQUIRE_VIRTUALENV",
    "PIP_ROOT",
    "PIP_TARGET",
    "PIP_USER",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "VIRTUAL_ENV",
    "__PYVENV_LAUNCHER__",
)

Progress = Callable[[str], None]


class BuildError(Exception):
    """An environment could not be built; the message says why and what to do."""


class _Marker(Struct):
    name: str
    python: str
    interpreter: str
    requirements: tuple[str, ...]
    seconds: float


def environment_path(cache: Path, definition: Definition) -> Path:
    """Return where the environment lives: the same recipe gives the same place.

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
        "files": {
            target: hashlib.sha256(source.read_bytes()).hexdigest() if source.is_file() else None
            for target, source in _own_files(definition).items()
        },
    }
    digest = hashlib.sha256(msgspec.json.encode(recipe, order="sorted")).hexdigest()
    return cache / "environments" / digest[:16]


def is_built(path: Path) -> bool:
    """Tell whether the environment is complete and its interpreter is still on this machine."""
    return (path / MARKER).is_file() and os.access(path / "bin" / "python", os.X_OK)


async def build(path: Path, definition: Definition, progress: Progress) -> None:
    """Make the environment at `path`, unless someone else has done so while we waited.

    Raises:
        BuildError: It cannot be built.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        async with _lock(path.with_suffix(".lock"), progress) as lock:
            if not is_built(path):
                await _Build(path, definition, progress, lock).run()
    except OSError as error:
        name = error.filename or path
        raise BuildError(f"{name}: {error.strerror or error}") from error


async def remove(path: Path, progress: Progress) -> None:
    """Remove the environment at `path`; one that is not there is no error.

    Raises:
        BuildError: It cannot be removed.
    """
    try:
        async with _lock(path.with_suffix(".lock"), progress):
            # The marker goes first: what is left of an interrupted removal is not complete.
            (path / MARKER).unlink(missing_ok=True)
            await _remove_tree(path)
            path.with_suffix(".log").unlink(missing_ok=True)
    except FileNotFoundError:
        return
    except OSError as error:
        raise BuildError(f"{error.filename or path}: {error.strerror or error}") from error


async def _remove_tree(path: Path) -> None:
    # Moved aside first: should we be cancelled, the thread goes on deleting, but not in the place
    # where the next one builds.
    aside = path.with_name(f"{path.name}.removed-{uuid.uuid4().hex[:8]}")
    path.rename(aside)  # noqa: ASYNC240 - an instant, unlike what follows
    await asyncio.to_thread(shutil.rmtree, aside)


class _Build:
    def __init__(self, path: Path, definition: Definition, progress: Progress, lock: int) -> None:
        self.path = path
        self.definition = definition
        self.progress = progress
        self.lock = lock
        self.log = path.with_suffix(".log")
        self.lines: deque[str] = deque(maxlen=_LAST_LINES)

    async def run(self) -> None:
        definition = self.definition
        assert definition.python is not None
        started = time.monotonic()
        interpreter = await find_interpreter(definition.python.versions)
        self.progress(f"Python {interpreter.version} ({interpreter.executable})")
        with contextlib.suppress(FileNotFoundError):
            await _remove_tree(self.path)
        self.log.write_text("", encoding="utf-8")
        await self._venv(interpreter)
        if definition.build_requirements:
            await self._pip(definition.build_requirements, ())
        if definition.requirements:
            isolation = ("--no-build-isolation",) if definition.build_requirements else ()
            await self._pip(definition.requirements, (*isolation, *definition.pip_arguments))
        self._copy_files()
        seconds = time.monotonic() - started
        marker = _Marker(
            name=definition.name,
            python=interpreter.version,
            interpreter=str(interpreter.executable),
            requirements=definition.requirements,
            seconds=round(seconds, 1),
        )
        temporary = self.path / (MARKER + ".new")
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(marker)))
        temporary.rename(self.path / MARKER)
        self.progress(f"environment ready in {seconds:.1f} s")

    async def _venv(self, interpreter: Interpreter) -> None:
        self.progress("creating the environment")
        command = [str(interpreter.executable), "-I", "-m", "venv", str(self.path)]
        if await self._run(command):
            raise BuildError(f"the environment could not be created: {failure_reason(self.lines)}")

    async def _pip(self, requirements: tuple[str, ...], arguments: tuple[str, ...]) -> None:
        # Everything on one command line: a second one would be free to replace what the first
        # one installed.
        command = [
            str(self.path / "bin" / "python"),
            "-I",
            "-m",
            "pip",
            "--disable-pip-version-check",
            "--no-input",
            "install",
            "--progress-bar=off",
            "--no-warn-script-location",
            *arguments,
            "--",
            *requirements,
        ]
        count = len(requirements)
        self.progress(f"installing {count} requirement{'s' if count != 1 else ''}")
        if await self._run(command):
            raise BuildError(
                f"pip could not install the requirements: {failure_reason(self.lines)}"
                f"{advice(self.lines)}; all of pip's output is in {self.log}"
            )

    async def _run(self, command: list[str]) -> int:
        environment = {
            name: value for name, value in os.environ.items() if name not in _UNWANTED_VARIABLES
        }
        environment |= {"LC_ALL": "C.UTF-8", "PYTHONUNBUFFERED": "1", "PIP_NO_COLOR": "1"}
        with self.log.open("a", encoding="utf-8") as log:

            def on_line(line: str) -> None:
                log.write(line + "\n")
                if line.strip():
                    self.lines.append(line.strip())
                if phase := progress_phase(line):
                    self.progress(phase)

            return await run(
                command, environment=environment, on_line=on_line, keep_open=[self.lock]
            )

    def _copy_files(self) -> None:
        for target, source in _own_files(self.definition).items():
            destination = self.path / target
            destination.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, destination)


def _own_files(definition: Definition) -> dict[str, Path]:
    """Return the files that belong inside the environment, by their path in it."""
    return {
        target.removeprefix(PREFIX + "/"): source
        for target, source in definition.files.items()
        if target.startswith(PREFIX + "/")
    }


@contextlib.asynccontextmanager
async def _lock(path: Path, progress: Progress) -> AsyncIterator[int]:
    """Hold the lock file `path`; yields its file descriptor."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        announced = False
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not announced:
                    progress("waiting for another process that builds this environment")
                    announced = True
                await asyncio.sleep(_LOCK_POLL_SECONDS)
        yield descriptor
    finally:
        os.close(descriptor)
