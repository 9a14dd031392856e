"""Checks the values of kube-openmpi: each problem names the key, what is wrong, and the fix."""

from __future__ import annotations

import difflib
import re
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from traincrew.api import placeholders
from traincrew.api.kinds.mpicluster import podvalues
from traincrew.api.kinds.mpicluster.codesync import ABSOLUTE_PATH, DNS_LABEL, GIT_WORD, OBJECT_NAME
from traincrew.api.kinds.mpicluster.convert import cluster
from traincrew.api.kinds.mpicluster.rules import problems as problems_of_cluster
from traincrew.api.kinds.mpicluster.types import (
    LABEL_VALUE,
    decode,
)
from traincrew.api.kinds.mpicluster.values import ChartValues
from traincrew.api.meta import ObjectMeta, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

_AT = re.compile(r" - at `\$\.?(.*)`$")
PATTERNS = {
    LABEL_VALUE: "letters, digits, '-', '_' and '.', with a letter or digit at both ends",
    DNS_LABEL: "lower case letters, digits and '-', with a letter or digit at both ends",
    OBJECT_NAME: "the name of an object: lower case letters, digits, '-' and '.'",
    GIT_WORD: "text without spaces that does not begin with '-'",
    ABSOLUTE_PATH: "a path that begins with '/'",
}
_FIELD_OF_BOTH = "template."
"""Beginning of fields that both templates have."""
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
        found = [*_missing(values), *podvalues.problems(values)]
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
            msgspec.convert(value, kind)
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


# -- what belongs together ------------------------------------------------------------------------


def _missing(values: dict[str, Any]) -> Iterator[Problem]:
    image = values.get("image", {})
    for key in ("repository", "tag"):
        if not image.get(key):
            yield Problem(f"image.{key}", f"it is required; write the {key} of your image")
    keys = values.get("sshKey", {})
    names = ("id_rsa", "id_rsa_pub")
    for key, other in (names, names[::-1]):
        if keys.get(other) and not keys.get(key):
            yield Problem(
                f"sshKey.{key}", f"it is required beside sshKey.{other}; write it, or remove both"
            )
    one_shot = values.get("mpiMaster", {}).get("oneShot", {})
    if one_shot.get("enabled") and not one_shot.get("command", "").strip():
        text = "it is required if oneShot.enabled is true; write what the master is to run"
        yield Problem("mpiMaster.oneShot.command", text)


# -- what an MPICluster refuses -------------------------------------------------------------------


def _of_cluster(values: dict[str, Any], name: str) -> Iterator[Problem]:
    document = cluster(values, name)
    try:
        spec = decode(document["spec"])
    except msgspec.ValidationError as error:
        at = _AT.search(str(error))
        field = f"spec.{at[1]}" if at is not None else "spec"
        yield Problem(key_of(field), _limit(_AT.sub("", str(error))))
        return
    for problem in problems_of_cluster(ObjectMeta(name=name), spec):
        key = key_of(problem.field)
        yield Problem(
            key, _in_values(problem.message) if key.endswith("gitRepo") else problem.message
        )


def _in_values(text: str) -> str:
    """Return a message about fields in the words of the values."""
    return text.replace("secretName", "gitSecretName").replace("repository has", "gitRepo has")


def _limit(text: str) -> str:
    """Return what msgspec says of a limit, in words."""
    for pattern, words in PATTERNS.items():
        if repr(pattern) in text:
            return f"expected {words}"
    text = text.replace("`str`", "text").replace("`int`", "a whole number").replace("`", "")
    return f"{text[0].lower()}{text[1:]}"


def key_of(field: str) -> str:
    """Return the key that became a field of an MPICluster; the field if there is none."""
    if field == "metadata.name":
        return "the name of the cluster"
    numbers = re.findall(r"\[\d+\]", field)
    general = re.sub(r"\[\d+\]", "[]", field.removeprefix("spec."))
    found = max(
        (
            (becomes, key)
            for key, becomes in paths().items()
            if becomes
            and (general == becomes or general.startswith((f"{becomes}.", f"{becomes}[")))
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
def paths() -> dict[str, str]:
    """Return all keys by their paths, each with the field of ``spec`` that it becomes."""
    found = {}
    for path, _, becomes in described(ChartValues, ""):
        found[path] = becomes
        if becomes.startswith(_FIELD_OF_BOTH):
            found[path] = f"master.{becomes}"
    return found


def described(kind: Any, path: str) -> Iterator[tuple[str, str, str]]:
    """Yield path, description and field of each key of a type, in their order."""
    for each in msgspec.structs.fields(kind):
        inside = f"{path}.{each.encode_name}".lstrip(".")
        inner = _plain(each.type)
        (meta,) = (meta for meta in each.type.__metadata__ if isinstance(meta, Meta))
        assert meta.extra is not None
        yield inside, str(meta.extra["description"]), str(meta.extra["field"])
        if get_origin(inner) is list:
            inner, inside = get_args(inner)[0], f"{inside}[]"
        if isinstance(inner, type) and issubclass(inner, Struct):
            yield from described(inner, inside)
