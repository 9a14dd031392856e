"""Reading YAML that others have written: bounded, whatever is in it.

A few hundred bytes of YAML stand for gigabytes (aliases of aliases, merges of merges), deep nesting
ends the stack of the interpreter or of libyaml, and the constructors of PyYAML raise what they
like. So documents are built from the events of the parser, with limits. They are JSON documents, as
in Kubernetes: keys are texts, dates and numbers of base 60 stay texts.

Import it where a file is read: it imports PyYAML.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

import yaml

from traincrew.engine.yamlreader.builder import Builder, Document
from traincrew.engine.yamlreader.errors import NullKeyError, TooLargeError, YamlError

__all__ = [
    "MAX_FILE_BYTES",
    "Document",
    "NullKeyError",
    "TooLargeError",
    "YamlError",
    "explain",
    "read",
    "read_all",
]

MAX_FILE_BYTES = 16 * 1024 * 1024
"""Bytes of all documents of one file."""

_MAX_EXACT = 256 * 1024
"""Bytes of a text that is read again, slowly, to explain a syntax error."""

# libyaml compares each tag handle with all others. Only a line before the document can be one.
_MAX_HANDLES = 50
_HANDLE = re.compile(r"(?:^|[\r\n\x85\u2028\u2029])%TAG")
_HANDLE_BYTES = re.compile(rb"(?:^|[\r\n]|\xc2\x85|\xe2\x80[\xa8\xa9])%TAG")
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def read_all(
    data: str | bytes,
    *,
    exact: bool = False,
    as_text: bool = False,
    unique: bool = False,
    nodes: bool = False,
    single: bool = False,
    most_duplicates: int = 0,
) -> list[Document]:
    """Return the documents of a text.

    Args:
        data: The text; bytes are UTF-8.
        exact: Whether syntax errors are those of PyYAML's own parser, which says more than libyaml:
            ``yaml.MarkedYAMLError`` or ``yaml.reader.ReaderError``.
        as_text: Whether numbers and booleans stay as they are written.
        unique: Whether a repeated key, and one that is a list or an object, is an error.
        nodes: Whether documents have nodes.
        single: Whether a second document is an error.
        most_duplicates: How many repeated keys a document reports.

    Raises:
        YamlError: It is not YAML, no JSON document, or exceeds a limit.
    """
    if len(data) > MAX_FILE_BYTES:
        size = MAX_FILE_BYTES >> 20
        raise YamlError(f"yaml: more than {size} MiB", problem=f"it has more than {size} MiB")
    if isinstance(data, bytes) and data.startswith(_UTF_16):
        raise YamlError("yaml: the body has to be UTF-8", problem="it has to be UTF-8 text")
    handles = _HANDLE_BYTES.finditer(data) if isinstance(data, bytes) else _HANDLE.finditer(data)
    if sum(1 for _ in itertools.islice(handles, _MAX_HANDLES)) == _MAX_HANDLES:
        raise YamlError("yaml: too many %TAG directives")
    settings: dict[str, Any] = {
        "as_text": as_text,
        "unique": unique,
        "nodes": nodes,
        "single": single,
        "most_duplicates": most_duplicates,
    }
    try:
        return list(Builder(data, **settings).read())
    except YamlError:
        raise
    except (yaml.YAMLError, ValueError) as error:
        if exact and isinstance(error, yaml.YAMLError):
            if len(data) > _MAX_EXACT:
                raise
            return list(Builder(data, exact=True, **settings).read())
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        raise YamlError(f"error converting YAML to JSON: {error}", mark, problem=problem) from None


def read(data: str | bytes, *, as_text: bool = False, unique: bool = False) -> Any:
    """Return the content of a text with one document; None if it is empty.

    Args:
        data: The text; bytes are UTF-8.
        as_text: As for `read_all`.
        unique: As for `read_all`.

    Raises:
        YamlError: As for `read_all`, and for a second document.
    """
    found = read_all(data, as_text=as_text, unique=unique, single=True)
    return found[0].content if found else None


def explain(name: str, error: YamlError) -> str:
    """Return file, line and reason of a refusal, in one printable line."""
    where = name if error.line is None else f"{name}:{error.line}"
    text = "".join(each if each.isprintable() else " " for each in error.problem[:500])
    return f"{where}: not valid YAML: {text}"
