"""What calls of functions cost, estimated and at run time, and how large their results may be.

The costs are those of ``k8s.io/apiserver/pkg/cel/library/cost.go`` and of cel-go's
``checker/cost.go`` and ``ext/lists.go``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .celtypes import DYN, Type
from .operators import TRAVERSAL, Frame, charge, measure
from .overloads import up

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["estimate", "price_of", "sorting_cost"]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.replace(" ", "\n").splitlines())


_CONSTANT = _names(
    "size dyn type optional.of optional.ofNonZeroValue optional.none hasValue value or orValue"
    " getEscapedPath getHost getHostname getPort getQuery getScheme family isGlobalUnicast"
    " isLinkLocalMulticast isLinkLocalUnicast isLoopback isUnspecified masked prefixLength"
    " asApproximateFloat asInteger compareTo isGreaterThan isLessThan isInteger sign add sub"
    " charAt first last major minor patch format.named"
    " path group serviceAccount resource subresource namespace name fieldSelector labelSelector"
    " errored error allowed reason check"
)
_REGULAR = frozenset({"matches", "find", "findAll"})
_QUADRATIC = frozenset(
    {"contains", "indexOf", "lastIndexOf", "sets.contains", "sets.equivalent", "sets.intersects"}
)
_PATTERN = 0.25

_SLOW = _names(
    "semver isSemver validate quantity isQuantity add sub asApproximateFloat asInteger compareTo"
    " isGreaterThan isLessThan"
    " isInteger sign url isURL getEscapedPath getHost getHostname getPort getQuery getScheme ip"
    " isIP ip.isCanonical cidr isCIDR containsCIDR containsIP family isGlobalUnicast masked"
    " isLinkLocalMulticast isLinkLocalUnicast isLoopback isUnspecified prefixLength timestamp"
    " duration format strings.quote getFullYear getMonth getDate getDayOfMonth getDayOfWeek"
    " getDayOfYear getHours getMinutes getSeconds getMilliseconds"
)
_SLOW_COST = 25
"""What those cost besides: a call takes Python some microseconds."""

_CHECK_COST = 2_000
"""What it costs to ask for a right: all Roles of a user are read. Upstream: 350,000."""


# -- at run time


def _nothing(frame: Frame, values: Sequence[Any]) -> None:
    del frame, values


def _every(frame: Frame, values: Sequence[Any]) -> None:
    for value in values:
        measure(frame, value)


def _text_length(value: Any) -> int:
    return len(value) if isinstance(value, (str, bytes)) else 0


def _search(frame: Frame, values: Sequence[Any]) -> None:
    text, pattern = _text_length(values[0]), _text_length(values[1])
    charge(frame, math.ceil((1 + text) * TRAVERSAL) * math.ceil(pattern * _PATTERN))


def _search_all(frame: Frame, values: Sequence[Any]) -> None:
    _search(frame, values)
    charge(frame, _text_length(values[0]))  # each character may become a result


def _pairs(frame: Frame, values: Sequence[Any]) -> None:
    if type(values[0]) is str:
        one, other = _text_length(values[0]) * TRAVERSAL, _text_length(values[1]) * TRAVERSAL
        # Searching takes linear time, but for a factor that short texts do not reach.
        charge(frame, 1 + one + other)
        return
    one, other = measure(frame, values[0]), measure(frame, values[1])
    charge(frame, one * other)


def _own_pairs(frame: Frame, values: Sequence[Any]) -> None:
    size = measure(frame, values[0])
    charge(frame, size * size)


def _sorted(frame: Frame, values: Sequence[Any]) -> None:
    size = measure(frame, values[0])
    charge(frame, size * math.log2(size + 2))


def _replaced(frame: Frame, values: Sequence[Any]) -> None:
    _every(frame, values)
    text, old, new = values[0], values[1], values[2]
    if isinstance(text, str) and isinstance(old, str):
        charge(frame, 2 * text.count(old) * _text_length(new) * TRAVERSAL)


def _joined(frame: Frame, values: Sequence[Any]) -> None:
    _every(frame, values)
    if len(values) > 1 and isinstance(values[0], list):
        charge(frame, len(values[0]) * _text_length(values[1]) * TRAVERSAL)


def _validated(frame: Frame, values: Sequence[Any]) -> None:
    text, pattern = _text_length(values[1]), getattr(values[0], "pattern_size", 0)
    charge(frame, math.ceil((1 + text) * TRAVERSAL) * math.ceil(pattern * _PATTERN))


def _characters(frame: Frame, values: Sequence[Any]) -> None:
    charge(frame, 1 + _text_length(values[0]))


def _counted(frame: Frame, values: Sequence[Any]) -> None:
    charge(frame, values[0] if type(values[0]) is int and values[0] > 0 else 1)


_PRICES: dict[str, Callable[[Frame, Sequence[Any]], None]] = {
    **dict.fromkeys(_CONSTANT, _nothing),
    **dict.fromkeys(_QUADRATIC, _pairs),
    "distinct": _own_pairs,
    "sort": _sorted,
    "replace": _replaced,
    "join": _joined,
    "split": _characters,
    "lists.range": _counted,
    "matches": _search,
    "find": _search,
    "findAll": _search_all,
    "validate": _validated,
}


def price_of(name: str) -> Callable[[Frame, Sequence[Any]], None] | None:
    """Return what charges for the arguments of a call; None if it costs nothing but itself."""
    price = _PRICES.get(name, _every)
    if name == "check":
        return lambda frame, _: charge(frame, _CHECK_COST)
    if name not in _SLOW:
        return None if price is _nothing else price

    def pay(frame: Frame, values: Sequence[Any]) -> None:
        charge(frame, _SLOW_COST)
        price(frame, values)

    return pay


# -- before


_LONGEST_FORMAT = 128 * _PATTERN
"""What a named format costs for each character that is read (``MaxNameFormatRegexSize``)."""

_NEW_LIST = 11
"""What a call costs that creates a list."""


def sorting_cost(size: float, key: Type) -> float:
    """Return what it costs to sort a list by keys of a type."""
    factor = 2 + (TRAVERSAL if key.name in {"string", "bytes"} else 0)
    return up(size * size * factor) + _NEW_LIST if size else _NEW_LIST


def estimate(
    name: str, kinds: Sequence[Type], literals: Sequence[int | None]
) -> tuple[float, float]:
    """Return what a call costs at most, and the largest size of its result.

    Args:
        name: of the function.
        kinds: types of its arguments.
        literals: values of the arguments that are written as whole numbers.
    """
    if name in _CONSTANT or not kinds:
        return 1, 1
    size = kinds[0].size
    if name in _REGULAR:
        pattern = kinds[1].size if len(kinds) > 1 else 0
        cost = up((size + 1) * TRAVERSAL) * up(pattern * _PATTERN)
        return cost, size
    if name in {"startsWith", "endsWith"}:
        return up(kinds[1].size * TRAVERSAL), 1
    if name == "validate":
        return up(up(kinds[1].size * TRAVERSAL) * _LONGEST_FORMAT), math.inf
    if kinds[0].name == "list" and name in _READING:
        item = kinds[0].of[0]
        length = math.inf if kinds[0].computed else item.size
        each = 1 + (up(length * TRAVERSAL) if item.name in {"string", "bytes"} else 0)
        return size * each if size else 0, item.size
    if name == "lists.range" or (kinds[0].name == "list" and name in _CREATING):
        return _creation(name, kinds[0], literals)
    if name.startswith("sets."):
        return size * kinds[1].size if size and kinds[1].size else 0, 1
    if name == "contains":
        return up(size * TRAVERSAL) * up(kinds[1].size * TRAVERSAL), 1
    if name == "join":
        longest = kinds[0].of[0].size if kinds[0].of and not kinds[0].computed else math.inf
        separator = kinds[1].size * max(size - 1, 0) if len(kinds) > 1 and kinds[1].size else 0
        whole = (size * longest if size and longest else 0) + separator
        return up(whole * TRAVERSAL), whole
    if name == "replace":
        return up(size * 2 * TRAVERSAL), _replaced_size(size, kinds[1].size, kinds[2].size)
    if name == "split":
        return up(size * 2 * TRAVERSAL), size
    if name in _TRAVERSED:
        return up(size * TRAVERSAL), size * (4 if name == "bytes" else 2 if "quote" in name else 1)
    return 1, math.inf


_READING = _names("isSorted sum max min indexOf lastIndexOf")
_CREATING = _names("sort distinct slice reverse flatten")


def _creation(name: str, of: Type, literals: Sequence[int | None]) -> tuple[float, float]:
    """Return cost and size of a new list."""
    size = of.size
    if name == "sort":
        return sorting_cost(size, of.of[0]), size * size
    if name == "distinct":
        return sorting_cost(size, DYN), size * size
    last = literals[-1]
    if name == "slice":
        end = size if last is None else max(last, 0)
        start = max(literals[1] or 0, 0)
        size = end - start if start <= end else math.inf  # upstream subtracts without a sign
    elif name == "lists.range":
        size = math.inf if last is None else max(last, 0)
    elif name == "flatten" and len(literals) == 2:
        depth = math.inf if last is None else max(last, 0)
        return (size * depth if size and depth else 0) + _NEW_LIST, size
    return size + _NEW_LIST, size


_TRAVERSED = _names(
    "url lowerAscii upperAscii substring trim cidr isIP isCIDR ip quantity isQuantity format bytes"
    " semver isSemver strings.quote ip.isCanonical reverse"
)


def _replaced_size(size: float, old: float, new: float) -> float:
    """Return the size of a text in which everything of a size is replaced by something else."""
    if not old:
        return (size + 1) * new + size if new else size
    # The shortest text to be replaced may be empty unless it is a literal.
    return (size + 1) * new + size if new else size
