"""The image store of the embedded cluster: resolves image names to built environments."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from traincrew.local.images import sources
from traincrew.local.images.builder import build, environment_path, remove
from traincrew.local.images.catalog import INSIDE, PREFIX, Catalog, Definition, load_catalogs
from traincrew.local.images.checks import (
    MAX_COPY_BYTES,
    check_cache,
    check_writable,
    is_copyable,
)
from traincrew.local.images.cleanup import sweep
from traincrew.local.images.environment import Environment, EnvironmentStatus
from traincrew.local.images.errors import (
    BuildError,
    CatalogError,
    ImagePullError,
    no_environment,
    without_environment,
)
from traincrew.local.images.interpreters import InterpreterNotFoundError, probe
from traincrew.local.images.oci.store import ContainerImages
from traincrew.local.images.programs import Programs
from traincrew.local.images.pulls import ContainerPulls, Lookup, PullRequest
from traincrew.local.images.reference import parse_reference
from traincrew.local.images.sharedbuilds import SharedBuild
from traincrew.local.images.sources import Choice, Source
from traincrew.local.images.trees import MARKER, Seals, current_tree, recipe_of

if TYPE_CHECKING:
    from traincrew.local.images.manifest import Damage

Progress = Callable[[str], None]

_PLAIN = PullRequest()

# The search path of container images, then that of package managers on this machine.
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MACOS_PATH = "/opt/homebrew/bin:/opt/homebrew/sbin"


class ImageStore:
    """Maps image names to environments and builds missing ones.

    Args:
        cache: Directory for built environments; may be shared by any number of processes.
        catalogs: YAML files of the user, searched in this order before the shipped one. A file
            that does not exist counts as empty. They are reloaded when they change.
        source: Where images may come from, where a container does not say.

    Raises:
        CatalogError: A catalog is invalid.
    """

    def __init__(
        self, cache: Path, catalogs: Sequence[Path] = (), *, source: Source = Source.AUTO
    ) -> None:
        self.cache = cache.absolute()
        self.source = source
        self.containers = ContainerImages.of_cache(self.cache)
        self._pulls = ContainerPulls(self.containers)
        self.catalogs = tuple(path.absolute() for path in catalogs)
        self._stamp = self._current_stamp()
        self._catalog = load_catalogs(self.catalogs)
        self._builds: dict[Path, SharedBuild] = {}
        self._seals = Seals()
        self._swept = False
        self._programs = Programs(self.cache / "programs")

    def is_present(self, image: str, source: Source | None = None) -> bool:
        """Return whether `pull` would have nothing to build or to fetch, as far as known here."""
        try:
            return self.look(image, source).is_present
        except ImagePullError:
            return False

    def check(self, image: str, source: Source | None = None) -> None:
        """Check that `image` stands for what is here, or could be built or fetched.

        Raises:
            ImagePullError: The name is malformed or unknown, a file or program of the environment
                does not exist, or the cache cannot be written; the message names a fix.
        """
        definition = self.look(image, source).meaning
        if not isinstance(definition, Definition):
            return
        try:
            self._check_files(definition)
            tree = self._tree(definition)
            check_cache(self.cache, tree)
            if definition.is_built and tree is None:
                check_writable(self.cache, definition.name)
        except BuildError as error:
            raise _pull_error(image, definition, error) from error

    async def pull(
        self,
        image: str,
        progress: Progress,
        request: PullRequest = _PLAIN,
        found: Lookup | None = None,
    ) -> Environment:
        """Return what `image` stands for; build or fetch it first if it is missing or damaged.

        Pulls of the same environment share one build; `progress` gets its lines from the moment
        it joins. Cancelling the last pull cancels the build.

        Args:
            image: As a container names it.
            progress: Receives lines for users.
            request: What the container wants.
            found: What `look` has just returned; otherwise it is looked for here.

        Raises:
            ImagePullError: The name is malformed or unknown, or the environment cannot be built, or
                the image cannot be fetched.
        """
        if found is None:
            found = await asyncio.to_thread(self.look, image, request.source)
        definition = found.meaning
        if not isinstance(definition, Definition):
            try:
                return await self._pulls.pull(
                    image, found.reference, request, progress, found.stored
                )
            except ImagePullError as error:
                if (request.source or self.source) is Source.IMAGE:
                    raise
                raise without_environment(image, error) from error
        if not self._swept:
            self._swept = True
            await asyncio.to_thread(sweep, self.cache)
        try:
            self._check_files(definition)
            check_cache(self.cache, self._tree(definition))
            prefix, interpreter = await self._python(definition, progress)
            return self._environment(definition, prefix, interpreter)
        except (BuildError, InterpreterNotFoundError, OSError, ValueError) as error:
            raise _pull_error(image, definition, error) from error

    def environments(self) -> list[EnvironmentStatus]:
        """List every environment of the catalogs, in order of precedence.

        Raises:
            CatalogError: A catalog has become invalid since it was last read.
        """
        return [self._status(definition) for definition in self._reload().definitions]

    def unused(self) -> list[Path]:
        """List built environments that no entry of these catalogs refers to any more.

        Damaged ones that others have replaced are among them.

        Raises:
            CatalogError: A catalog has become invalid since it was last read.
        """
        used = {status.path for status in self.environments() if status.path is not None}
        recipes = {recipe_of(path) for path in used}
        return sorted(
            path
            for path in (self.cache / "environments").glob("*/")
            # One that another process is building has no marker yet.
            if path not in used and (recipe_of(path) not in recipes or (path / MARKER).is_file())
        )

    def is_changed(self, status: EnvironmentStatus) -> bool:
        """Return whether something has changed in a built environment; takes milliseconds.

        The next pull, or `verify`, finds out whether that is damage.
        """
        return (
            status.path is not None
            and status.is_ready
            and not self._seals.is_unchanged(status.path)
        )

    def verify(self, tree: Path) -> list[Damage]:
        """Compare every file of a built environment with its manifest.

        Raises:
            BuildError: Another user can write it, or a file cannot be read.
        """
        check_cache(self.cache, tree)
        try:
            return self._seals.damage(tree)
        except OSError as error:
            raise BuildError(f"{error.filename}: {error.strerror}") from error

    async def repair(self, name: str, progress: Progress) -> Path:
        """Build the environment of an entry anew; pods keep the one they have.

        Args:
            name: Of the entry, which has an environment that is built.
            progress: Receives lines for users.

        Raises:
            BuildError: It cannot be built.
            InterpreterNotFoundError: There is no Python for it.
            CatalogError: A catalog has become invalid since it was last read.
        """
        definition = next(one for one in self._reload().definitions if one.name == name)
        recipe = environment_path(self.cache, definition)
        return await build(recipe, definition, progress, self._seals, anew=True)

    async def remove(self, path: Path, progress: Progress) -> None:
        """Remove a built environment. Pods that use it will fail; it is rebuilt on demand.

        Args:
            path: As in `unused`, or in the status of an environment.
            progress: Receives lines for users.

        Raises:
            BuildError: It cannot be removed.
        """
        await remove(path, progress)

    # -- catalogs -----------------------------------------------------------------------------

    def look(self, image: str, source: Source | None = None) -> Lookup:
        """Return what a name stands for, and whether that is here. Blocking: it reads files.

        Raises:
            ImagePullError: The name is malformed or unknown, or a catalog is invalid.
        """
        reference = parse_reference(image)
        source = self.source if source is None else source
        definition = self._current_catalog(image).find(reference)
        known, shipped = definition is not None, definition is not None and definition.shipped
        # Looked for on the disk only where it may matter.
        relevant = source is Source.IMAGE or (source is Source.AUTO and (shipped or not known))
        stored = self._pulls.stored(reference) if relevant else None
        choice = sources.choose(
            source, own=known and not shipped, stored=stored is not None, shipped=shipped
        )
        if choice is None:
            raise ImagePullError("ErrImagePull", f'image "{image}": {no_environment(image)}')
        if choice is Choice.ENVIRONMENT and definition is not None:
            present = not definition.is_built or self._tree(definition) is not None
            return Lookup(reference, definition, None, present)
        return Lookup(reference, choice, stored, choice is Choice.STORED)

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

    def _tree(self, definition: Definition) -> Path | None:
        """Return the newest complete tree of a definition; None if there is or can be none."""
        if not definition.is_built:
            return None
        return current_tree(environment_path(self.cache, definition))

    def _status(self, definition: Definition) -> EnvironmentStatus:
        python = definition.python
        path = environment_path(self.cache, definition) if definition.is_built else None
        tree = None if path is None else current_tree(path)
        used = python.interpreter if python is not None else None
        version = ""
        if python is not None:
            version = (
                "current"
                if python.current
                else str(python.interpreter or " or ".join(python.versions))
            )
        return EnvironmentStatus(
            name=definition.name,
            images=definition.images,
            origin=definition.origin,
            path=tree or path,
            is_ready=(used is None or used.exists()) if path is None else tree is not None,
            python=version,
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
                copied = key == "programs" or target.startswith(INSIDE)
                if copied and not is_copyable(source):
                    raise BuildError(
                        f"{source}, which {key} puts at {target}, is no file of at most "
                        f"{MAX_COPY_BYTES >> 20} MiB ({definition.origin})"
                    )
        lacking = [
            f"{name} ({fix})"
            for name, fix in definition.machine_programs.items()
            if shutil.which(name, path=_search_path(None)) is None
        ]
        if lacking:
            raise BuildError(
                f"it uses programs of this machine that are not installed: {'; '.join(lacking)}"
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
        tree = await self._build(environment_path(self.cache, definition), definition, progress)
        return tree, tree / "bin" / "python"

    def _environment(
        self, definition: Definition, prefix: Path | None, interpreter: Path | None
    ) -> Environment:
        variables = {"PATH": _search_path(interpreter)}
        for name, value in definition.variables.items():
            variables[name] = value.replace(PREFIX, str(prefix))
        files = {
            target: source
            for target, source in definition.files.items()
            if not target.startswith(INSIDE)
        }
        for target, source in definition.programs.items():
            assert interpreter is not None
            files[target] = self._programs.make(source, interpreter)
        return Environment(
            name=definition.name,
            prefix=prefix,
            variables=variables,
            files=files,
            working_directory=definition.working_directory,
            command=list(definition.command),
            arguments=list(definition.arguments),
            own_ports=definition.own_ports,
            user=definition.user,
        )

    # -- shared builds ------------------------------------------------------------------------

    async def _build(self, recipe: Path, definition: Definition, progress: Progress) -> Path:
        shared = self._builds.get(recipe)
        if shared is None:
            shared = self._builds[recipe] = SharedBuild(recipe, definition, self._seals)
            shared.task.add_done_callback(lambda _: self._builds.pop(recipe, None))
        return await shared.join(progress)


def _pull_error(image: str, definition: Definition, error: Exception) -> ImagePullError:
    return ImagePullError(
        "ErrImagePull",
        f'image "{image}": environment "{definition.name}": {error}',
        permanent=getattr(error, "permanent", True),
    )


def _search_path(interpreter: Path | None) -> str:
    parts = [str(interpreter.parent)] if interpreter is not None else []
    parts.append(_SYSTEM_PATH)
    if sys.platform == "darwin":
        parts.append(_MACOS_PATH)
    return ":".join(parts)
