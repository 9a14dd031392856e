"""CEL functions of strings, lists and sets; `conversions` and others have the rest.

See "Kubernetes CEL libraries" in the Kubernetes documentation.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.values.regex import Pattern, RegexError, compile_pattern

from .authorizing import AUTHORIZING
from .conversions import CONVERSIONS, string
from .operators import CelError, CostExceededError, Optional
from .parsedvalues import PARSED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["FUNCTIONS"]

# --- strings ------------------------------------------------------------------------------------


def _substring(text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if not 0 <= start <= stop <= len(text):
        raise ValueError(f"index out of range: {start}, {stop}")
    return text[start:stop]


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    return text.replace(old, new, count)


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if not separator:
        parts = list(text)
        return (
            parts
            if limit < 0 or len(parts) <= limit
            else [*parts[: limit - 1], "".join(parts[limit - 1 :])]
        )
    return text.split(separator, limit - 1 if limit > 0 else -1)


def _join(parts: list[str], separator: str = "") -> str:
    return separator.join(parts)


def _index_of(subject: Any, value: Any, start: int = 0) -> int:
    if isinstance(subject, str):
        return subject.find(value, start)
    return subject.index(value) if value in subject else -1


def _last_index_of(subject: Any, value: Any) -> int:
    if isinstance(subject, str):
        return subject.rfind(value)
    return len(subject) - 1 - subject[::-1].index(value) if value in subject else -1


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise ValueError(f"index out of range: {index}")
    return text[index : index + 1]


def _map_ascii(text: str, change: Callable[[str], str]) -> str:
    return "".join(change(character) if character.isascii() else character for character in text)


def _quote(text: str) -> str:
    return '"' + text.encode("unicode_escape").decode().replace('"', '\\"') + '"'


_MAX_FORMATTED = 1024 * 1024  # characters
_FORMAT = re.compile(r"%(?:\.(\d{1,3}))?(.?)", re.DOTALL)


def _format(template: str, arguments: list[Any]) -> str:
    values = iter(arguments)
    size = len(template)

    def show(match: re.Match[str]) -> str:
        nonlocal size
        text = _formatted(match, values)
        size += len(text)
        if size > _MAX_FORMATTED:
            raise CostExceededError
        return text

    return _FORMAT.sub(show, template)


def _formatted(match: re.Match[str], values: Iterator[Any]) -> str:
    precision, kind = match.groups()
    if kind == "%":
        return "%"
    if not kind or kind not in "sdfexXob":
        raise CelError(
            f'could not parse formatting clause: unrecognized formatting clause "{kind}"'
        )
    try:
        value = next(values)
    except StopIteration:
        raise CelError("index 0 out of range") from None
    if kind == "s":
        return _text(value)
    if kind == "d":
        return _text(value) if isinstance(value, float) else str(int(value))
    if kind in "fe":
        return f"{value:.{precision or 6}{kind}}"
    if kind in "xX" and isinstance(value, (str, bytes)):
        shown = (value.encode() if isinstance(value, str) else value).hex()
        return shown if kind == "x" else shown.upper()
    return format(int(value), kind)


def _text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, list):
        return "[" + ", ".join(map(_text, value)) + "]"
    if isinstance(value, dict):
        entries = sorted((_text(key), _text(item)) for key, item in value.items())
        return "{" + ", ".join(f"{key}: {item}" for key, item in entries) + "}"
    return string(value)


def _pattern(pattern: str, text: str) -> Pattern:
    try:
        compiled = compile_pattern(pattern)
    except RegexError as error:
        raise CelError(str(error)) from None
    if not compiled.allows(text):
        raise CostExceededError
    return compiled


def _matches(text: str, pattern: str) -> bool:
    return _pattern(pattern, text).search(text)


def _find(text: str, pattern: str) -> str:
    return next(_pattern(pattern, text).find(text), "")


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = _pattern(pattern, text).find(text)
    return list(found if limit < 0 else itertools.islice(found, limit))


# --- lists, sets, numbers -----------------------------------------------------------------------


def _is_sorted(values: list[Any]) -> bool:
    return all(left <= right for left, right in itertools.pairwise(values))


def _sum(values: list[Any]) -> Any:
    return sum(values[1:], values[0]) if values else 0


def _flatten(values: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise CelError("level must be non-negative")
    result: list[Any] = []
    for value in values:
        if isinstance(value, list) and depth > 0:
            result += _flatten(value, depth - 1)
        else:
            result.append(value)
    return result


def _distinct(values: list[Any]) -> list[Any]:
    result: list[Any] = []
    for value in values:
        if value not in result:
            result.append(value)
    return result


def _slice(values: list[Any], start: int, end: int) -> list[Any]:
    fault = ""
    if start < 0 or end < 0:
        fault = "negative indexes not supported"
    elif start > end:
        fault = "start index must be less than or equal to end index"
    elif end > len(values):
        fault = f"list is length {len(values)}"
    if fault:
        raise CelError(f"cannot slice({start}, {end}), {fault}")
    return values[start:end]


def _contains_all(left: list[Any], right: list[Any]) -> bool:
    return all(value in left for value in right)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **CONVERSIONS,
    **PARSED,
    **AUTHORIZING,
    "size": len,
    # strings
    "contains": lambda text, part: part in text,
    "startsWith": lambda text, start: text.startswith(start),
    "endsWith": lambda text, end: text.endswith(end),
    "matches": _matches,
    "charAt": _char_at,
    "find": _find,
    "findAll": _find_all,
    "format": _format,
    "indexOf": _index_of,
    "join": _join,
    "lastIndexOf": _last_index_of,
    "lowerAscii": lambda text: _map_ascii(text, str.lower),
    "replace": _replace,
    "reverse": lambda value: value[::-1],
    "split": _split,
    "strings.quote": _quote,
    "substring": _substring,
    "trim": lambda text: text.strip(),
    "jsonpatch.escapeKey": lambda text: text.replace("~", "~0").replace("/", "~1"),
    "upperAscii": lambda text: _map_ascii(text, str.upper),
    # lists
    "distinct": _distinct,
    "first": lambda values: Optional(values[0]) if values else Optional(),
    "last": lambda values: Optional(values[-1]) if values else Optional(),
    "flatten": _flatten,
    "isSorted": _is_sorted,
    "lists.range": lambda count: list(range(count)),
    "max": max,
    "min": min,
    "slice": _slice,
    "sort": sorted,
    "sum": _sum,
    # sets
    "sets.contains": _contains_all,
    "sets.equivalent": lambda left, right: (
        _contains_all(left, right) and _contains_all(right, left)
    ),
    "sets.intersects": lambda left, right: any(value in left for value in right),
}
