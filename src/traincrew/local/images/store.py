"""The images of the embedded cluster: names in, ready environments out."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from traincrew.local.images.builder import BuildError, build, environment_path, is_built, remove
from traincrew.local.images.catalog import PREFIX, Catalog, Definition, load_catalogs
from traincrew.local.images.environment import Environment, EnvironmentStatus
from traincrew.local.images.errors import CatalogError, ImagePullError
from traincrew.local.images.interpreters import InterpreterNotFoundError, probe
from traincrew.local.images.reference import ImageReference, parse_reference

Progress = Callable[[str], None]

# The search path of container images, then where package managers of this machine put programs.
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MACOS_PATH = "/opt/homebrew/bin:/opt/homebrew/sbin"
_LONGEST_HASHBANG = 127


def default_catalog() -> Path:
    """Return where the user's own catalog is looked for when nothing else is said."""
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "traincrew" / "environments.yaml"


class ImageStore:
    """Maps image names to environments and builds those that are not there yet.

    Args:
        cache: Directory for built environments; may be shared by any number of processes.
        catalogs: YAML files of the user, asked in this order before the shipped one. A file that
            does not exist counts as empty. They are read again when they change.

    Raises:
        CatalogError: A catalog is wrong.
    """

    def __init__(self, cache: Path, catalogs: Sequence[Path] = ()) -> None:
        self.cache = cache.absolute()
        self.catalogs = tuple(path.absolute() for path in catalogs)
        self._stamp = self._current_stamp()
        self._catalog = load_catalogs(self.catalogs)
        self._builds: dict[Path, _Build] = {}

    def is_present(self, image: str) -> bool:
        """Tell whether `pull` would have nothing to build. Unknown images are not present."""
        try:
            definition = self._find(image, parse_reference(image))
        except ImagePullError:
            return False
        return not definition.is_built or is_built(environment_path(self.cache, definition))

    def check(self, image: str) -> None:
        """Make sure that `image` stands for an environment, built or not.

        Raises:
            ImagePullError: The name is malformed or unknown; the message says what to add.
        """
        self._find(image, parse_reference(image))

    async def pull(self, image: str, progress: Progress) -> Environment:
        """Return the environment `image` stands for, built first if need be.

        Pulls of the same environment share one build; `progress` gets its lines from when it
        joins. Cancelling the last of them ends the build.

        Raises:
            ImagePullError: The name is malformed or unknown, or the environment cannot be built.
        """
        definition = self._find(image, parse_reference(image))
        try:
            self._check_files(definition)
            prefix, interpreter = await self._python(definition, progress)
            return self._environment(definition, prefix, interpreter)
        except (BuildError, InterpreterNotFoundError, OSError, ValueError) as error:
            raise ImagePullError(
                "ErrImagePull",
                f'image "{image}": environment "{definition.name}": {error}',
            ) from error

    def environments(self) -> list[EnvironmentStatus]:
        """List every environment of the catalogs, in the order in which they are tried.

        Raises:
            CatalogError: A catalog has become wrong since it was last read.
        """
        return [self._status(definition) for definition in self._reload().definitions]

    def unused(self) -> list[Path]:
        """List built environments that no entry of these catalogs refers to any more.

        Raises:
            CatalogError: A catalog has become wrong since it was last read.
        """
        used = {status.path for status in self.environments()}
        built = (self.cache / "environments").glob("*/")
        return sorted(path for path in built if path not in used)

    async def remove(self, path: Path, progress: Progress) -> None:
        """Remove a built environment. Pods that use it will fail; it is built anew on demand.

        Raises:
            BuildError: It cannot be removed.
        """
        await remove(path, progress)

    # -- catalogs -----------------------------------------------------------------------------

    def _find(self, image: str, reference: ImageReference) -> Definition:
        definition = self._current_catalog(image).find(reference)
        if definition is None:
            place = self.catalogs[0] if self.catalogs else default_catalog()
            name = reference.familiar_name
            raise ImagePullError(
                "ErrImagePull",
                f'image "{image}": no environment is defined for it; under "environments:" in '
                f"{place} "
                f'add  - {{name: {name.rsplit("/", 1)[-1]}, images: ["{name}"], python: current}}  '
                'for the Python traincrew runs on, or python: "3.11" with requirements '
                "(docs/guides/environments.md)",
            )
        return definition

    def _current_catalog(self, image: str) -> Catalog:
        try:
            return self._reload()
        except CatalogError as error:
            raise ImagePullError("ErrImagePull", f'image "{image}": {error}') from error

    def _reload(self) -> Catalog:
        stamp = self._current_stamp()
        if stamp != self._stamp:
            self._catalog = load_catalogs(self.catalogs)
            self._stamp = stamp
        return self._catalog

    def _status(self, definition: Definition) -> EnvironmentStatus:
        python = definition.python
        path = environment_path(self.cache, definition) if definition.is_built else None
        shown = ""
        if python is not None:
            shown = (
                "current"
                if python.current
                else str(python.interpreter or " or ".join(python.versions))
            )
        return EnvironmentStatus(
            name=definition.name,
            images=definition.images,
            origin=definition.origin,
            path=path,
            is_ready=path is None or is_built(path),
            python=shown,
        )

    def _current_stamp(self) -> tuple[tuple[int, int] | None, ...]:
        stamps: list[tuple[int, int] | None] = []
        for path in self.catalogs:
            try:
                status = path.stat()
                stamps.append((status.st_mtime_ns, status.st_size))
            except OSError:
                stamps.append(None)
        return tuple(stamps)

    # -- parts of an environment --------------------------------------------------------------

    def _check_files(self, definition: Definition) -> None:
        for key, files in (("files", definition.files), ("programs", definition.programs)):
            for target, source in files.items():
                if not source.exists():
                    raise BuildError(
                        f"{source}, which {key} puts at {target}, does not exist "
                        f"({definition.origin})"
                    )

    async def _python(
        self, definition: Definition, progress: Progress
    ) -> tuple[Path | None, Path | None]:
        """Return prefix and interpreter, both None for host tools."""
        python = definition.python
        if python is None:
            return None, None
        if python.current:
            return Path(sys.prefix), Path(sys.executable)
        if python.interpreter is not None:
            executable = python.interpreter
            if executable.is_dir():
                executable = executable / "bin" / "python3"
            try:
                found = await probe(executable)
            except OSError as error:
                raise BuildError(
                    f"{executable} cannot be run: {error.strerror or 'it does not answer'}; "
                    f"correct python: ({definition.origin})"
                ) from error
            return found.prefix, executable
        path = environment_path(self.cache, definition)
        if not is_built(path):
            await self._build(path, definition, progress)
        return path, path / "bin" / "python"

    def _environment(
        self, definition: Definition, prefix: Path | None, interpreter: Path | None
    ) -> Environment:
        variables = {"PATH": _search_path(interpreter)}
        for name, value in definition.variables.items():
            variables[name] = value.replace(PREFIX, str(prefix))
        files = {
            target: source
            for target, source in definition.files.items()
            if not target.startswith(PREFIX)
        }
        for target, source in definition.programs.items():
            assert interpreter is not None
            files[target] = self._program(source, interpreter)
        return Environment(
            name=definition.name,
            prefix=prefix,
            variables=variables,
            files=files,
            working_directory=definition.working_directory,
            command=list(definition.command),
            arguments=list(definition.arguments),
            own_ports=definition.own_ports,
        )

    def _program(self, source: Path, interpreter: Path) -> Path:
        """Make `source` executable by a first line that names `interpreter`.

        ``-I -S`` keeps its start to a few milliseconds and away from anything installed.
        """
        content = hashbang(interpreter) + source.read_bytes()
        name = hashlib.sha256(content).hexdigest()[:16]
        path = self.cache / "programs" / name / source.stem
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
                file.write(content)
            Path(file.name).chmod(0o755)
            Path(file.name).rename(path)
        return path

    # -- shared builds ------------------------------------------------------------------------

    async def _build(self, path: Path, definition: Definition, progress: Progress) -> None:
        shared = self._builds.get(path)
        if shared is None:
            shared = self._builds[path] = _Build(path, definition)
            shared.task.add_done_callback(lambda _: self._builds.pop(path, None))
        await shared.join(progress)


class _Build:
    """One build and those who wait for it."""

    def __init__(self, path: Path, definition: Definition) -> None:
        self.listeners: list[Progress] = []
        self.task = asyncio.create_task(
            build(path, definition, self._tell), name=f"build environment {definition.name}"
        )

    def _tell(self, line: str) -> None:
        for listener in self.listeners:
            listener(line)

    async def join(self, progress: Progress) -> None:
        self.listeners.append(progress)
        try:
            await asyncio.shield(self.task)
        finally:
            self.listeners.remove(progress)
            if not self.listeners and not self.task.done():
                self.task.cancel()
                with contextlib.suppress(asyncio.CancelledError, BuildError):
                    await self.task


def hashbang(interpreter: Path) -> bytes:
    """Return first lines that start a Python program on exactly this interpreter.

    Kernels cut the line short and split it at white space; where that would hurt, a shell
    starts the interpreter from inside what Python takes for a string.
    """
    line = f"#!{interpreter} -IS\n"
    if len(line) <= _LONGEST_HASHBANG and not any(c.isspace() for c in str(interpreter)):
        return line.encode()
    quoted = str(interpreter).replace('"', '\\"')
    return f"""#!/bin/sh\n'''exec' "{quoted}" -IS "$0" "$@"\n' '''\n""".encode()


def _search_path(interpreter: Path | None) -> str:
    parts = [str(interpreter.parent)] if interpreter is not None else []
    parts.append(_SYSTEM_PATH)
    if sys.platform == "darwin":
        parts.append(_MACOS_PATH)
    return ":".join(parts)
