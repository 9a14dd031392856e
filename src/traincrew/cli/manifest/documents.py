"""Reads the objects of files, directories and standard input, with their positions."""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from traincrew.cli.errors import BadInput
from traincrew.cli.manifest.hints import about_field, about_value, about_yaml
from traincrew.cli.manifest.podspecs import resolve_host_paths
from traincrew.cli.manifest.positions import line_of
from traincrew.cli.options import current_directory
from traincrew.engine.yamlreader import YamlError, read_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from traincrew.engine.errors import ApiError
    from traincrew.engine.resources import Resource

_VALUES_KEYS = {"mpiMaster", "mpiWorkers"}
"""Keys of a values file of the chart kube-openmpi."""
_WHOLE_OBJECT = "<nil>"
"""What API servers call an object as a whole."""
_UNCHECKED = "some validation rules were not checked"
_SUFFIXES = {".yaml", ".yml", ".json"}
LIST = "List"
"""End of the kind of a list, also of one kind only: ``ChainerJobList``."""


class Document(NamedTuple):
    """An object to create, and its position."""

    where: str
    content: dict[str, Any]
    file: str = ""
    node: yaml.Node | None = None

    def at(self, field: str) -> str:
        """Return file and line of a field; for a missing field, those of its parent."""
        if self.node is None:
            return self.where
        return f"{self.file}:{line_of(self.node, field)}"

    @property
    def kind(self) -> str:
        """The kind of the object."""
        return str(self.content["kind"])

    @property
    def api_version(self) -> str:
        """The API group and version."""
        return str(self.content["apiVersion"])

    @property
    def namespace(self) -> str:
        """The namespace, ``default`` if not set."""
        metadata = self.content.get("metadata") or {}
        return str(metadata.get("namespace") or "default")

    @property
    def name(self) -> str:
        """The name, or the prefix of a generated name."""
        metadata = self.content.get("metadata") or {}
        return str(metadata.get("name") or metadata.get("generateName") or "")


def load(paths: Sequence[str]) -> list[Document]:
    """Read all objects of files, of the manifests in directories, and of standard input (``-``).

    Relative paths of ``hostPath`` volumes become absolute: they are relative to the directory of
    their file, or for standard input to the working directory.

    Raises:
        BadInput: A file cannot be read or is not a manifest; the message has the position.
    """
    return _read(", ".join(paths), (each for path in paths for each in texts(path)))


def load_text(name: str, text: str) -> list[Document]:
    """Read all objects of a text; paths of ``hostPath`` are relative to the working directory.

    Args:
        name: What errors call it.
        text: YAML or JSON.

    Raises:
        BadInput: It is not a manifest; the message has the position.
    """
    return _read(name, [(name, current_directory(), text)])


def _read(source: str, found: Iterable[tuple[str, Path, str]]) -> list[Document]:
    documents: list[Document] = []
    for name, directory, text in found:
        for document in _documents(name, text):
            resolve_host_paths(document.content, directory)
            documents.append(document)
    if not documents:
        raise BadInput(f"{source}: contains no Kubernetes objects")
    return documents


def texts(path: str) -> Iterable[tuple[str, Path, str]]:
    """Yield name, directory and text of a file, of the files in a directory, or of ``-``.

    Raises:
        BadInput: One of them cannot be read.
    """
    if path == "-":
        text = _decoded("standard input", sys.stdin.buffer.read())
        yield "standard input", current_directory(), text
        return
    place = Path(path)
    files = [place]
    try:
        if place.is_dir():  # fails below a directory that may not be read
            files = sorted(file for file in place.iterdir() if file.suffix in _SUFFIXES)
    except OSError as error:
        raise _unreadable(place, error) from error
    if not files:
        raise BadInput(f"{path}: no .yaml, .yml or .json file in this directory")
    for file in files:
        try:
            content = file.read_bytes()
        except OSError as error:
            raise _unreadable(file, error) from error
        yield str(file), current_directory() / file.parent, _decoded(str(file), content)


def _unreadable(path: Path, error: OSError) -> BadInput:
    return BadInput(f"cannot read {path}: {(error.strerror or str(error)).lower()}")


def _decoded(name: str, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        where = f"{name}:{line}" if error.start else name
        raise BadInput(
            f"{where}: not UTF-8 text (at byte {error.start}): save the file as UTF-8"
        ) from error


def _documents(name: str, text: str) -> Iterable[Document]:
    for node, content in parsed(name, text):
        where = name if node is None else f"{name}:{node.start_mark.line + 1}"
        yield from _objects(_Place(where, name, node), content)


def parsed(name: str, text: str) -> Iterable[tuple[yaml.Node | None, Any]]:
    """Yield each document of a text, parsed as kubectl does, and its node.

    Raises:
        BadInput: It is not YAML; the message has the position.
    """
    try:
        for document in read_all(text, exact=True, unique=True, nodes=True):
            yield document.node, document.content
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise BadInput(
            f"{name}:{line}: not valid YAML: unacceptable character #x{error.character:04x}"
        ) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark is not None else name
        problem = error.problem or error.context or "it cannot be parsed"
        hint = about_yaml(_lines_at(text, mark.line), problem) if mark is not None else ""
        raise BadInput(_with_hint(f"{where}: not valid YAML: {problem}", hint)) from error
    except YamlError as error:
        where = name if error.line is None else f"{name}:{error.line}:{error.column}"
        hint = about_yaml(_lines_at(text, (error.line or 1) - 1), error.problem)
        raise BadInput(_with_hint(f"{where}: not valid YAML: {error.problem}", hint)) from error


def _lines_at(text: str, line: int) -> str:
    """Return a line, counted from 0, and the one before it."""
    return "\n".join(text.splitlines()[max(line - 1, 0) : line + 1])


class _Place(NamedTuple):
    """The position of an object."""

    where: str
    file: str
    node: yaml.Node | None

    def item(self, index: int) -> _Place:
        """Return the position of an item of a list."""
        node = None
        if isinstance(self.node, yaml.MappingNode):
            items = [value for key, value in self.node.value if key.value == "items"]
            if items and isinstance(items[-1], yaml.SequenceNode):
                node = items[-1].value[index]
        return _Place(f"{self.where}: items[{index}]", self.file, node)


def _objects(place: _Place, content: Any) -> Iterable[Document]:
    if content is None:
        return
    where = place.where
    if not isinstance(content, dict):
        raise BadInput(f"{where}: a manifest is a mapping with apiVersion, kind and metadata")
    if "apiVersion" not in content and _VALUES_KEYS & content.keys():
        convert = f"traincrew mpi {place.file} | traincrew run -"
        raise BadInput(f"{where}: values of kube-openmpi, not a manifest; convert them: {convert}")
    for field in ("apiVersion", "kind"):
        if not isinstance(content.get(field), str) or not content[field]:
            raise BadInput(f"{where}: {field} is missing or not a string{_example(content, field)}")
    if content["kind"].endswith(LIST) and isinstance(content.get("items"), list):
        for index, item in enumerate(content["items"]):
            yield from _objects(place.item(index), _item(place.item(index), item, content))
        return
    metadata = content.get("metadata")
    if content["kind"].endswith(LIST) and "items" not in content and not metadata:
        raise BadInput(f"{where}: items is missing: it has the objects of a {content['kind']}")
    if not isinstance(metadata, dict):
        raise BadInput(f"{where}: metadata is missing (it needs at least a name)")
    for field in ("name", "generateName", "namespace"):
        value = metadata.get(field)
        if value is not None and not isinstance(value, str):
            raise BadInput(
                f'{where}: metadata.{field} must be a text, not {value!r}: write "{value}"'
            )
    if not metadata.get("name") and not metadata.get("generateName"):
        raise BadInput(f"{where}: metadata.name is missing")
    yield Document(where, content, place.file, place.node)


def _item(place: _Place, item: Any, of: dict[str, Any]) -> Any:
    """Return an item of a list as an object; in a list of one kind it may leave the kind out.

    `kubectl get -o yaml` writes a List, client libraries write a ChainerJobList.
    """
    kind = of["kind"].removesuffix(LIST)
    if not kind or not isinstance(item, dict):
        return item
    found = {"apiVersion": of["apiVersion"], "kind": kind, **item}
    if (found["apiVersion"], found["kind"]) != (of["apiVersion"], kind):
        raise BadInput(
            f"{place.where}: {found['kind']} ({found['apiVersion']}) in a {of['kind']}"
            f" ({of['apiVersion']}): write kind: List, with apiVersion: v1, for several kinds"
        )
    return found


def _example(content: dict[str, Any], field: str) -> str:
    """Return how to write a missing apiVersion or kind; empty if that is not clear."""
    other = "kind" if field == "apiVersion" else "apiVersion"
    matching = [
        each.api_version if field == "apiVersion" else each.kind
        for each in training_resources()
        if content.get(other) == (each.kind if field == "apiVersion" else each.api_version)
    ]
    return f": write {field}: {' or '.join(matching)}" if matching else ""


@cache
def training_resources() -> tuple[Resource, ...]:
    """Return the resources of the kinds that we install."""
    from traincrew.api.kinds import KINDS
    from traincrew.engine.resources import Resource

    return tuple(
        Resource(kind.group, kind.version, kind.plural, kind.kind, namespaced=True)
        for kind in KINDS
    )


def _schema_of(document: Document) -> dict[str, Any]:
    """Return the schema of an object's kind, empty if the kind is not one of ours."""
    from traincrew.api.crd import schema
    from traincrew.api.kinds import KINDS

    for kind in KINDS:
        if (f"{kind.group}/{kind.version}", kind.kind) == (document.api_version, document.kind):
            return schema(kind)
    return {}


def refusal(document: Document, error: ApiError) -> str:
    """Explain why the API server refused an object, with the fields and what was probably meant."""
    title = f"{document.where}: {document.kind} {document.name!r} is refused"
    causes = [
        cause
        for cause in error.details.get("causes") or []
        if isinstance(cause, dict) and cause.get("message") and not _is_unchecked(cause)
    ]
    if not causes:
        _, strict, fields = error.message.partition("strict decoding error: ")
        if strict:
            lines = [f"  {_strict(document, field)}" for field in fields.split(", ")]
            return "\n".join([f"{title}:", *lines])
        return f"{title}: {error.message}"
    lines = []
    for cause in causes:
        field, message = str(cause.get("field") or ""), str(cause["message"])
        if field == _WHOLE_OBJECT:  # by a rule about several fields; its text begins with the first
            message = message.removeprefix("Invalid value: ")
            field = message.split(maxsplit=1)[0]
        said = f"{field}: {message}" if field and field not in message else message
        lines.append(f"  {_with_line(document, field, _with_hint(said, about_value(message)))}")
    return "\n".join([f"{title}:", *lines])


def _is_unchecked(cause: dict[str, Any]) -> bool:
    """Return whether a cause only says that the API server stopped checking."""
    return cause.get("field") == _WHOLE_OBJECT and _UNCHECKED in str(cause["message"])


def _strict(document: Document, said: str) -> str:
    """Return an error of strict decoding, with the line of the field."""
    match = re.fullmatch(r'(unknown|duplicate) field "(.*)"', said)
    if match is None:
        return said
    hint = about_field(_schema_of(document), match[2]) if match[1] == "unknown" else ""
    return _with_line(document, match[2], _with_hint(said, hint))


def _with_hint(said: str, hint: str) -> str:
    return f"{said}; {hint}" if hint else said


def _with_line(document: Document, field: str, said: str) -> str:
    return f"{document.at(field)}: {said}" if field and document.node is not None else said
