"""Checks the values of kube-openmpi: each problem names the key, what is wrong, and the fix."""

from __future__ import annotations

import difflib
import re
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from traincrew.api import checks, placeholders
from traincrew.api.kinds.mpicluster import valuesrules
from traincrew.api.kinds.mpicluster.convert import cluster, fields
from traincrew.api.kinds.mpicluster.rules import problems as problems_of_cluster
from traincrew.api.kinds.mpicluster.types import decode
from traincrew.api.kinds.mpicluster.values import ChartValues
from traincrew.api.meta import ObjectMeta, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "the name of the cluster"
"""What problems say for the name, which no key has."""
_AT = re.compile(r" - at `\$\.?(.*)`$")
_WORDS = {
    "secretName": "gitSecretName",
    "repository has": "gitRepo has",
    "spec.codeSync": "appCodesToSync",
}
"""What messages about fields say, and what they say about keys."""
_HELM = frozenset({"global"})
"""Keys at the top that Helm has a use for."""


def problems(values: dict[str, Any], name: str) -> list[Problem]:
    """Return everything that is wrong with values on top of the defaults.

    Args:
        values: The values, as `traincrew.api.kinds.mpicluster.values.merged` returns them.
        name: The name of the cluster.
    """
    found = [*_shape(values, ChartValues, ""), *placeholders.problems(values, "")]
    if not found:
        found = list(checks.problems(valuesrules.OF_VALUES, {"values": values}))
    return found or list(_of_cluster(values, name))


# -- keys and types -------------------------------------------------------------------------------


def _shape(value: Any, kind: Any, path: str) -> Iterator[Problem]:
    """Yield keys that do not exist, and values of a wrong type."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        yield from _mapping(value, kind, path)
    elif get_origin(kind) is list and isinstance(value, list):
        (item,) = get_args(kind)
        for index, each in enumerate(value):
            yield from _shape(each, item, f"{path}[{index}]")
    else:
        try:
            # For Helm 2.0 is a whole number.
            is_whole = isinstance(value, float) and value.is_integer()
            msgspec.convert(int(value) if is_whole else value, kind)
        except msgspec.ValidationError as error:
            yield Problem(path, _explanation(error, kind, value))


def _mapping(value: Any, kind: type[Struct], path: str) -> Iterator[Problem]:
    fields = {each.encode_name: each for each in msgspec.structs.fields(kind)}
    if not isinstance(value, dict):
        text = f"expected a mapping with {_list(list(fields))}, got {_type_name(value)}"
        yield Problem(path, text)
        return
    dot = f"{path}." if path else ""
    for key, inner in value.items():
        if key in fields:
            yield from _shape(inner, _plain(fields[key].type), f"{dot}{key}")
        elif path or key not in _HELM:
            yield Problem(f"{dot}{key}", f"there is no such key; {hint(key, list(fields), dot)}")
    for key, each in fields.items():
        if each.required and key not in value:
            yield Problem(f"{dot}{key}", f"it is required: {_description(each.type)}")


def _plain(kind: Any) -> Any:
    """Return a type without its description."""
    return get_args(kind)[0] if hasattr(kind, "__metadata__") else kind


def _description(kind: Any) -> str:
    return next(
        (
            str(each.extra["description"])
            for each in getattr(kind, "__metadata__", ())
            if isinstance(each, Meta) and each.extra
        ),
        "",
    )


def hint(key: str, siblings: list[str], dot: str) -> str:
    """Return the nearest known key, here or elsewhere; else all that exist here.

    Args:
        key: A key that does not exist.
        siblings: The keys that exist beside it.
        dot: The path of the mapping that it is in, with a dot at its end unless it is empty.
    """
    lowered = {each.lower(): each for each in siblings}
    if near := difflib.get_close_matches(key.lower(), lowered, n=1):
        return f"did you mean {dot}{lowered[near[0]]}?"
    elsewhere = [path for path in paths() if re.split(r"[.\]]+", path)[-1].lower() == key.lower()]
    if elsewhere:
        return f"did you mean {' or '.join(elsewhere)}?"
    return f"there are {_list(siblings)}"


def _explanation(error: msgspec.ValidationError, kind: Any, value: Any) -> str:
    if get_origin(kind) is Literal:
        allowed = " or ".join(str(each) for each in get_args(kind))
        return f"expected {allowed}, got {value if isinstance(value, str) else _type_name(value)}"
    allowed = _words(kind)
    if allowed == "text" and isinstance(value, int | float) and not isinstance(value, bool):
        return "expected text, got a number; write it in quotes"
    if (at := _AT.search(str(error))) is not None and at[1]:
        return f"expected {allowed}; wrong at {at[1]}"
    return f"expected {allowed}, got {_type_name(value)}"


def _words(kind: Any) -> str:
    """Return a type in words."""
    kind = _plain(kind)
    names = {
        str: "text",
        int: "a whole number",
        bool: "true or false",
        dict: "a mapping",
        list: "a list",
    }
    origin = get_origin(kind) or kind
    if origin in names:
        return names[origin]
    options = [each for each in get_args(kind) if each is not type(None)]
    return "a whole number" if int in options else " or ".join(map(_words, options))


def _type_name(value: Any) -> str:
    names = {
        str: "text",
        bool: "true or false",
        int: "a number",
        float: "a decimal number",
        dict: "a mapping",
        list: "a list",
        type(None): "nothing",
    }
    return names.get(type(value), type(value).__name__)


def _list(words: list[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


# -- what an MPICluster refuses -------------------------------------------------------------------


def _of_cluster(values: dict[str, Any], name: str) -> Iterator[Problem]:
    document = cluster(values, name)
    found = list(checks.problems(valuesrules.limits(), {"cluster": document}))
    if not found:
        found = problems_of_cluster(ObjectMeta(name=name), decode(document["spec"]))
    for problem in found:
        yield Problem(key_of(problem.field), in_values(problem.message))


def in_values(text: str) -> str:
    """Return a message about fields in the words of the values."""
    for field, key in _WORDS.items():
        text = text.replace(field, key)
    return text


def key_of(field: str) -> str:
    """Return the key that became a field of an MPICluster; the field if there is none.

    Args:
        field: The field; what is in brackets, such as an index, is what the key has there, too.
    """
    if field == "metadata.name":
        return NAME
    numbers = re.findall(r"\[[^]]*\]", field)
    general = re.sub(r"\[[^]]*\]", "[]", field.removeprefix("spec."))
    found = max(
        (
            (becomes, key)
            for key, all_fields in fields().items()
            for becomes in all_fields
            if general == becomes or general.startswith((f"{becomes}.", f"{becomes}["))
        ),
        key=lambda pair: len(pair[0]),
        default=None,
    )
    if found is None:
        return field
    becomes, key = found
    text = key + general.removeprefix(becomes)
    if "containers[]" in becomes:  # the only one
        del numbers[0]
    for number in numbers:
        text = text.replace("[]", number, 1)
    return text


@cache
def paths() -> tuple[str, ...]:
    """Return all keys by their paths."""
    return tuple(path for path, _ in described(ChartValues, ""))


def described(kind: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield path and description of each key of a type, in their order."""
    for each in msgspec.structs.fields(kind):
        inside = f"{path}.{each.encode_name}".lstrip(".")
        inner = _plain(each.type)
        (meta,) = (meta for meta in each.type.__metadata__ if isinstance(meta, Meta))
        assert meta.extra is not None
        yield inside, str(meta.extra["description"])
        if get_origin(inner) is list:
            inner, inside = get_args(inner)[0], f"{inside}[]"
        if isinstance(inner, type) and issubclass(inner, Struct):
            yield from described(inner, inside)
