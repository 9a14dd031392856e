"""Scalars: which values texts stand for, as Kubernetes reads them."""

from __future__ import annotations

import math
import re
from typing import Any

import yaml

from traincrew.engine.yamlreader.errors import YamlError, at, unsupported

__all__ = ["MERGE", "STRING", "TAG", "ExactLoader", "FastLoader", "constructed", "resolved"]

TAG = "tag:yaml.org,2002:"
MERGE = f"{TAG}merge"
STRING = f"{TAG}str"
_NULL = f"{TAG}null"

_MAX_NUMBER = 1_000  # characters; longer scalars are not compared with YAML's patterns
_LONG_NUMBER = re.compile(r"[-+]?[0-9][0-9_]*+(?:\.[0-9_]*+)?(?:[eE][-+]?[0-9]++)?")


class _Scalars:
    """Resolves scalars as Kubernetes does: timestamps stay strings."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as in the base class of PyYAML
        first: [
            (tag, regexp)
            for tag, regexp in resolvers
            if tag not in {f"{TAG}timestamp", f"{TAG}value"}
        ]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


class ExactLoader(_Scalars, yaml.SafeLoader):
    """In Python: says where a syntax error begins."""


# libyaml reads a token in about a microsecond, the pure Python parser in fourteen.
class FastLoader(_Scalars, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """In C, where PyYAML was built with it."""


def _finite(value: float, node: yaml.ScalarNode, mark: Any) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise unsupported(node.value, mark)
    return number


def resolved(loader: Any, event: yaml.ScalarEvent, *, as_text: bool) -> str:
    """Return the tag of a scalar.

    Args:
        loader: Of the text.
        event: The scalar.
        as_text: Whether numbers and booleans stay as they are written.

    Raises:
        YamlError: It is a number that JSON does not have.
    """
    tag, text = event.tag, event.value
    if tag not in {None, "!"}:
        return str(tag)
    if len(text) > _MAX_NUMBER:
        if event.implicit[0] and not as_text and _LONG_NUMBER.fullmatch(text):
            raise unsupported(text, event.start_mark)
        return STRING
    found: str = loader.resolve(yaml.ScalarNode, text, event.implicit)
    return STRING if as_text and found not in {_NULL, MERGE} else found


def constructed(loader: Any, event: yaml.ScalarEvent, tag: str) -> Any:
    """Return the value of a scalar that is neither a string nor a merge key.

    Raises:
        YamlError: It has none in JSON.
    """
    node = yaml.ScalarNode(tag, event.value)
    if tag == _NULL:
        return None
    try:
        if tag == f"{TAG}bool":
            return loader.construct_yaml_bool(node)
        if tag not in {f"{TAG}int", f"{TAG}float"} or len(node.value) > _MAX_NUMBER:
            raise at(event, f"unsupported tag {tag[:100]!r}")
        if ":" in node.value:  # of base 60 in YAML 1.1, which Go's parser does not know
            return node.value
        if tag == f"{TAG}int":
            value: int = loader.construct_yaml_int(node)
            # Longer numbers are read as in JSON.
            if -(1 << 63) <= value < 1 << 64:
                return value
            return _finite(value, node, event.start_mark)
        return _finite(loader.construct_yaml_float(node), node, event.start_mark)
    except YamlError:
        raise
    except (ValueError, LookupError) as error:  # `!!int ''`, `!!bool x`
        said = f"{event.value[:100]!r} is no {tag.removeprefix(TAG)}"
        message = f"error converting YAML to JSON: {error}"
        raise YamlError(message, event.start_mark, problem=said) from None
