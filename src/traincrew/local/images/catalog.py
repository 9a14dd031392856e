"""Catalogs: YAML files that map image names to environments.

The format is described for users in ``docs/reference/environments.md``. A catalog is validated when
it is read; errors name the file, the entry and the field.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct, UnsetType, field

from traincrew.local.images.documents import read_entries
from traincrew.local.images.entries import Entry
from traincrew.local.images.environment import ImageUser
from traincrew.local.images.reference import ImagePattern, ImageReference, parse_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable

SHIPPED_CATALOG = Path(__file__).with_name("catalog.yaml")
PREFIX = "{prefix}"
_MAX_ID = 2**31 - 1
PACKAGES = "{packages}"
INSIDE = (PREFIX, PACKAGES)

_VERSION = re.compile(r"3\.[0-9]+(?:\.[0-9]+)?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_USER = re.compile(r"([0-9]{1,10})(?::([0-9]{1,10}))?")
_ELSEWHERE = re.compile(
    r"--(?:target|prefix|root|python|system|user|cache-dir)(?:=|\Z)|-[A-Za-z]*?[tp](?!-)"
)
"""Options of `uv pip install` that choose another place than the environment."""
_TOP = 2
"""Parts of a path directly below `{prefix}`, the slash included."""
_MAX_PARENTS = 20
_MAX_PATTERN = 500
_PROJECT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Python(Struct, frozen=True):
    """The Python of an environment: a version to build on, or an existing interpreter.

    Attributes:
        versions: Acceptable versions, best first, such as ``3.11``; an environment is built.
        interpreter: An interpreter (or the directory it was installed into) used as it is.
        current: The interpreter traincrew itself runs on, used as it is.
    """

    versions: tuple[str, ...] = ()
    interpreter: Path | None = None
    current: bool = False


class Definition(Struct, frozen=True):
    """One entry of a catalog, with the fields it inherits.

    Attributes:
        shipped: It is in the catalog of this program, and not in one of the user's.
    """

    name: str
    origin: str
    shipped: bool = False
    images: tuple[str, ...] = ()
    patterns: tuple[ImagePattern, ...] = ()
    python: Python | None = None
    build_requirements: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    hashes: tuple[Path, ...] = ()
    pip_arguments: tuple[str, ...] = ()
    files: Mapping[str, Path] = field(default_factory=dict)
    programs: Mapping[str, Path] = field(default_factory=dict)
    machine_programs: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    working_directory: str = "/"
    own_ports: bool = True
    user: ImageUser | None = None

    @property
    def is_built(self) -> bool:
        """Whether a pull builds an environment; otherwise its interpreter exists already."""
        return self.python is not None and bool(self.python.versions)


class Catalog(Struct, frozen=True):
    """The definitions of one or more files, in order of precedence."""

    definitions: tuple[Definition, ...] = ()

    def find(self, reference: ImageReference) -> Definition | None:
        """Return the first definition with a pattern that matches."""
        for definition in self.definitions:
            if any(pattern.matches(reference) for pattern in definition.patterns):
                return definition
        return None


@cache
def _shipped() -> list[Any]:
    """Return the raw entries of the shipped catalog; not to be changed."""
    return read_entries(SHIPPED_CATALOG)


def load_catalogs(paths: Iterable[Path]) -> Catalog:
    """Read the given files (missing ones count as empty), then the shipped one.

    Raises:
        CatalogError: A file cannot be read or is invalid.
    """
    documents = [(path, read_entries(path)) for path in paths if path.exists()]
    documents.append((SHIPPED_CATALOG, _shipped()))
    parsed = [Entry(path, index, raw) for path, raws in documents for index, raw in enumerate(raws)]
    for path, _ in documents:
        seen: dict[str, Entry] = {}
        for entry in parsed:
            if entry.path == path and seen.setdefault(entry.name, entry) is not entry:
                entry.fail("name", f'another entry of this file is called "{entry.name}" too')
    by_name: dict[str, list[Entry]] = {}
    for entry in parsed:
        by_name.setdefault(entry.name, []).append(entry)
    return Catalog(tuple(_resolve(entry, by_name, ()) for entry in parsed))


_ByName = Mapping[str, Sequence[Entry]]


def _resolve(entry: Entry, entries: _ByName, children: tuple[Entry, ...]) -> Definition:
    base = Definition(name=entry.name, origin=str(entry.path))
    parent_name = entry.text("from")
    if parent_name is not None:
        base = _resolve(_parent(entry, parent_name, entries, children), entries, (*children, entry))
    python = _python(entry)
    own_ports = entry.flag("ownPorts")
    definition = Definition(
        name=entry.name,
        origin=entry.where,
        shipped=entry.path == SHIPPED_CATALOG,
        images=entry.texts("images"),
        patterns=_patterns(entry),
        python=base.python if isinstance(python, UnsetType) else python,
        build_requirements=_merge_requirements(
            base.build_requirements, _requirements(entry, "buildRequirements")
        ),
        requirements=_merge_requirements(base.requirements, _requirements(entry, "requirements")),
        hashes=_hashes(entry) if "hashes" in entry.raw else base.hashes,
        pip_arguments=base.pip_arguments + _pip_arguments(entry),
        files={**base.files, **_files(entry, "files")},
        programs={**base.programs, **_files(entry, "programs")},
        machine_programs={**base.machine_programs, **_machine_programs(entry)},
        variables={**base.variables, **_variables(entry)},
        command=entry.texts("command") if "command" in entry.raw else base.command,
        arguments=entry.texts("args") if "args" in entry.raw else base.arguments,
        working_directory=_working_directory(entry) or base.working_directory,
        own_ports=base.own_ports if own_ports is None else own_ports,
        user=_user(entry) or base.user,
    )
    _check_whole(entry, definition)
    return definition


def _parent(entry: Entry, name: str, entries: _ByName, children: tuple[Entry, ...]) -> Entry:
    # The same file first, then the others in their order. An entry may extend one of the same name
    # in a later file: that is how a shipped environment is adjusted.
    candidates = [other for other in entries.get(name, ()) if other is not entry]
    candidates.sort(key=lambda other: other.path != entry.path)
    if not candidates:
        known = ", ".join(sorted(entries.keys() - {entry.name}))
        entry.fail("from", f'there is no environment "{name}"; there are: {known}')
    parent = candidates[0]
    if parent in children:
        entry.fail("from", f'"{name}" is itself made from "{entry.name}"')
    if len(children) >= _MAX_PARENTS:
        children[0].fail("from", f"leads to more than {_MAX_PARENTS} others")
    return parent


def _patterns(entry: Entry) -> tuple[ImagePattern, ...]:
    patterns = []
    for index, text in enumerate(entry.texts("images")):
        if len(text) > _MAX_PATTERN:
            entry.fail(f"images[{index}]", f"has more than {_MAX_PATTERN} characters")
        try:
            patterns.append(parse_pattern(text))
        except ValueError as error:
            entry.fail(f"images[{index}]", str(error))
    return tuple(patterns)


def is_path(python: str) -> bool:
    """Return whether the value of ``python`` is a path, and neither a version nor a word."""
    return "/" in python or python.startswith("~")


def _python(entry: Entry) -> Python | UnsetType | None:
    value = entry.raw.get("python", UNSET)
    if isinstance(value, UnsetType):
        return UNSET
    if value is None:
        return None
    if value == "current":
        return Python(current=True)
    if isinstance(value, str) and is_path(value):
        return Python(interpreter=entry.local_path("python", value))
    versions = value if isinstance(value, list) else [value]
    for version in versions:
        if isinstance(version, float | int):
            entry.fail(
                "python", f'{version} is a number in YAML (3.10 would be 3.1): quote it, "3.11"'
            )
        if not isinstance(version, str) or not _VERSION.fullmatch(version):
            entry.fail(
                "python",
                f'"{version}": must be "current", the path of an interpreter, a version such as '
                '"3.11", or a list of versions',
            )
    if not versions:
        entry.fail("python", "the list of versions is empty")
    return Python(versions=tuple(versions))


def _requirements(entry: Entry, key: str) -> tuple[str, ...]:
    requirements = entry.texts(key)
    for index, requirement in enumerate(requirements):
        if requirement.lstrip().startswith("-"):
            entry.fail(
                f"{key}[{index}]",
                f'"{requirement}" is an option of pip, not a requirement; '
                "write options under pipArguments",
            )
        if not requirement.isprintable():
            entry.fail(f"{key}[{index}]", "has more than one line: one requirement per entry")
    return requirements


def _hashes(entry: Entry) -> tuple[Path, ...]:
    paths = tuple(
        entry.local_path(f"hashes[{index}]", text)
        for index, text in enumerate(entry.texts("hashes"))
    )
    for index, path in enumerate(paths):
        if not path.is_file():
            entry.fail(f"hashes[{index}]", f"{path}: there is no such file")
    return paths


def _pip_arguments(entry: Entry) -> tuple[str, ...]:
    arguments = entry.texts("pipArguments")
    follows_option = False
    for index, argument in enumerate(arguments):
        key = f"pipArguments[{index}]"
        if argument == "--" or not (follows_option or argument.startswith("-")):
            entry.fail(key, f'"{argument}" is no option; write packages under requirements')
        if _ELSEWHERE.match(argument):
            entry.fail(key, f'"{argument}" would install outside of the environment')
        follows_option = argument.startswith("-") and "=" not in argument
    return arguments


def _merge_requirements(base: tuple[str, ...], own: tuple[str, ...]) -> tuple[str, ...]:
    """Merge requirements; own ones replace inherited ones of the same project."""
    replaced = {_project(requirement) for requirement in own}
    return (*(one for one in base if _project(one) not in replaced), *own)


def _project(requirement: str) -> str:
    match = _PROJECT.match(requirement.strip())
    return re.sub(r"[-_.]+", "-", match.group().lower()) if match else requirement


def _files(entry: Entry, key: str) -> dict[str, Path]:
    files = {}
    for target, source in entry.text_map(key).items():
        inside = next((prefix for prefix in INSIDE if target.startswith(prefix + "/")), "")
        path = PurePosixPath(target.removeprefix(inside))
        if not path.is_absolute() or ".." in path.parts or path == PurePosixPath("/"):
            entry.fail(
                f"{key}.{target}", "the path in the pod must be absolute and without .. parts"
            )
        if not source:
            entry.fail(f"{key}.{target}", "the file of this machine is missing")
        if inside == PREFIX and path.name.startswith("traincrew-") and len(path.parts) == _TOP:
            entry.fail(f"{key}.{target}", "is one of traincrew's own files")
        if inside and key == "programs":
            entry.fail(f"{key}.{target}", f"programs cannot be inside {inside}; use files")
        files[inside + str(path)] = entry.local_path(f"{key}.{target}", source)
    return files


def _machine_programs(entry: Entry) -> dict[str, str]:
    programs = entry.text_map("machinePrograms")
    for name, fix in programs.items():
        if not name or "/" in name:
            entry.fail(f"machinePrograms.{name}", "must be the name of a program, without a path")
        if not fix:
            entry.fail(f"machinePrograms.{name}", "the text that says how to install it is missing")
    return programs


def _variables(entry: Entry) -> dict[str, str]:
    variables = entry.text_map("env")
    for name in variables:
        if not _VARIABLE.fullmatch(name):
            entry.fail(f"env.{name}", "is not a name for an environment variable")
    return variables


def _working_directory(entry: Entry) -> str | None:
    directory = entry.text("workingDir")
    if directory is not None and not directory.startswith("/"):
        entry.fail("workingDir", f'"{directory}" must be an absolute path in the pod')
    return directory


def _user(entry: Entry) -> ImageUser | None:
    value = entry.raw.get("user")
    if value is None:
        return None
    match = None if isinstance(value, bool | float) else _USER.fullmatch(str(value))
    numbers = [int(number or 0) for number in match.groups()] if match else []
    if not numbers or max(numbers) > _MAX_ID:
        entry.fail(
            "user",
            f'"{value}": must be the number of a user, such as 65532, or "USER:GROUP" with two '
            f"numbers up to {_MAX_ID}; names are unknown outside of an image",
        )
    return ImageUser(*numbers)


def _check_whole(entry: Entry, definition: Definition) -> None:
    if definition.is_built:
        return
    for key, requirements in (
        ("requirements", definition.requirements),
        ("buildRequirements", definition.build_requirements),
    ):
        if requirements:
            entry.fail(
                key,
                "need an environment of their own: give the wanted version, such as "
                'python: "3.11" (nothing is installed into an interpreter that is already there)',
            )
    for target in definition.files:
        if target.startswith(INSIDE):
            prefix = target.partition("/")[0]
            entry.fail(f"files.{target}", f'{prefix} needs python: with a version such as "3.11"')
    if definition.python is None:
        if definition.programs:
            entry.fail("programs", "are Python programs and need python: to run on")
        for name, value in definition.variables.items():
            if PREFIX in value:
                entry.fail(f"env.{name}", f"{PREFIX} needs python:")
