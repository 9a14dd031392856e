"""Declared functions: their overloads, what calls cost, and how large their results may be.

The overloads are those of cel-go and of "Kubernetes CEL libraries" in the Kubernetes documentation;
the costs those of ``k8s.io/apiserver/pkg/cel/library/cost.go`` and cel-go's ``checker/cost.go``.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from .celtypes import Type, parse_type
from .operators import TRAVERSAL, Frame, charge, measure
from .overloads import Overload, up

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["NAMESPACES", "OVERLOADS", "estimate", "price_of"]

_DECLARED = """
size: (string) int | (bytes) int | (list(A)) int | (map(A,B)) int
  | string.() int | bytes.() int | list(A).() int | map(A,B).() int
contains: string.(string) bool
startsWith: string.(string) bool
endsWith: string.(string) bool
matches: string.(string) bool | (string,string) bool
charAt: string.(int) string
find: string.(string) string
findAll: string.(string) list(string) | string.(string,int) list(string)
format: string.(list(dyn)) string
indexOf: string.(string) int | string.(string,int) int | list(A).(A) int
lastIndexOf: string.(string) int | string.(string,int) int | list(A).(A) int
join: list(string).() string | list(string).(string) string
lowerAscii: string.() string
upperAscii: string.() string
replace: string.(string,string) string | string.(string,string,int) string
reverse: list(A).() list(A)
split: string.(string) list(string) | string.(string,int) list(string)
strings.quote: (string) string
substring: string.(int) string | string.(int,int) string
trim: string.() string
distinct: list(A).() list(A)
first: list(A).() optional(A)
last: list(A).() optional(A)
flatten: list(list(A)).() list(A) | list(dyn).(int) list(dyn)
isSorted: list(A).() bool
lists.range: (int) list(int)
max: list(A).() A
min: list(A).() A
slice: list(A).(int,int) list(A)
sort: list(A).() list(A)
sum: list(A).() A
sets.contains: (list(A),list(A)) bool
sets.equivalent: (list(A),list(A)) bool
sets.intersects: (list(A),list(A)) bool
math.abs: (int) int | (double) double | (uint) uint
url: (string) kubernetes.URL
isURL: (string) bool
getEscapedPath: kubernetes.URL.() string
getHost: kubernetes.URL.() string
getHostname: kubernetes.URL.() string
getPort: kubernetes.URL.() string
getQuery: kubernetes.URL.() map(string,list(string))
getScheme: kubernetes.URL.() string
ip: (string) net.IP | net.CIDR.() net.IP
isIP: (string) bool
ip.isCanonical: (string) bool
cidr: (string) net.CIDR
isCIDR: (string) bool
containsCIDR: net.CIDR.(string) bool | net.CIDR.(net.CIDR) bool
containsIP: net.CIDR.(string) bool | net.CIDR.(net.IP) bool
family: net.IP.() int
isGlobalUnicast: net.IP.() bool
isLinkLocalMulticast: net.IP.() bool
isLinkLocalUnicast: net.IP.() bool
isLoopback: net.IP.() bool
isUnspecified: net.IP.() bool
masked: net.CIDR.() net.CIDR
prefixLength: net.CIDR.() int
quantity: (string) kubernetes.Quantity
isQuantity: (string) bool
add: kubernetes.Quantity.(kubernetes.Quantity) kubernetes.Quantity
  | kubernetes.Quantity.(int) kubernetes.Quantity
sub: kubernetes.Quantity.(kubernetes.Quantity) kubernetes.Quantity
  | kubernetes.Quantity.(int) kubernetes.Quantity
asApproximateFloat: kubernetes.Quantity.() double
asInteger: kubernetes.Quantity.() int
compareTo: kubernetes.Quantity.(kubernetes.Quantity) int
isGreaterThan: kubernetes.Quantity.(kubernetes.Quantity) bool
isLessThan: kubernetes.Quantity.(kubernetes.Quantity) bool
isInteger: kubernetes.Quantity.() bool
sign: (kubernetes.Quantity) int | kubernetes.Quantity.() int
bool: (bool) bool | (string) bool
bytes: (bytes) bytes | (string) bytes
double: (double) double | (int) double | (uint) double | (string) double
duration: (duration) duration | (string) duration
dyn: (A) dyn
int: (int) int | (double) int | (uint) int | (string) int | (timestamp) int
string: (string) string | (bool) string | (int) string | (uint) string | (double) string
  | (bytes) string | (timestamp) string | (duration) string
timestamp: (timestamp) timestamp | (string) timestamp | (int) timestamp
type: (A) type
uint: (uint) uint | (int) uint | (double) uint | (string) uint
getFullYear: timestamp.() int | timestamp.(string) int
getMonth: timestamp.() int | timestamp.(string) int
getDate: timestamp.() int | timestamp.(string) int
getDayOfMonth: timestamp.() int | timestamp.(string) int
getDayOfWeek: timestamp.() int | timestamp.(string) int
getDayOfYear: timestamp.() int | timestamp.(string) int
getHours: timestamp.() int | timestamp.(string) int | duration.() int
getMinutes: timestamp.() int | timestamp.(string) int | duration.() int
getSeconds: timestamp.() int | timestamp.(string) int | duration.() int
getMilliseconds: timestamp.() int | timestamp.(string) int | duration.() int
optional.of: (A) optional(A)
optional.ofNonZeroValue: (A) optional(A)
optional.none: () optional(A)
hasValue: optional(A).() bool
value: optional(A).() A
or: optional(A).(optional(A)) optional(A)
orValue: optional(A).(A) A
math.greatest: *
math.least: *
"""


_ONE = re.compile(
    r"(?:(?P<target>\w+(?:\.\w+)*(?:\([\w.,]*(?:\(\w+\))?\))?)\.)?\((?P<given>.*)\) (?P<result>\S+)"
)
_SEPARATOR = re.compile(r",(?![^(]*\))")


def _overload(text: str) -> Overload:
    match = _ONE.fullmatch(text.strip())
    assert match is not None, text
    given = [each for each in _SEPARATOR.split(match["given"]) if each]
    if match["target"]:
        given.insert(0, match["target"])
    return Overload(
        bool(match["target"]), tuple(map(parse_type, given)), parse_type(match["result"])
    )


def _read(text: str) -> dict[str, list[Overload]]:
    found: dict[str, list[Overload]] = {}
    for line in text.strip().replace("\n  ", " ").split("\n"):
        name, _, overloads = line.partition(": ")
        found[name] = (
            [] if overloads == "*" else [_overload(each) for each in overloads.split(" | ")]
        )
    return found


OVERLOADS = _read(_DECLARED)
"""Overloads by name; none for a function of any number of arguments of a number type."""

NAMESPACES = frozenset(name.partition(".")[0] for name in OVERLOADS if "." in name)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.replace(" ", "\n").splitlines())


_CONSTANT = _names(
    "size dyn type optional.of optional.ofNonZeroValue optional.none hasValue value or orValue"
    " getEscapedPath getHost getHostname getPort getQuery getScheme family isGlobalUnicast"
    " isLinkLocalMulticast isLinkLocalUnicast isLoopback isUnspecified masked prefixLength"
    " asApproximateFloat asInteger compareTo isGreaterThan isLessThan isInteger sign add sub"
    " charAt math.abs first last"
)
_REGULAR = frozenset({"matches", "find", "findAll"})
_QUADRATIC = frozenset(
    {"contains", "indexOf", "lastIndexOf", "sets.contains", "sets.equivalent", "sets.intersects"}
)
_PATTERN = 0.25

_SLOW = _names(
    "quantity isQuantity add sub asApproximateFloat asInteger compareTo isGreaterThan isLessThan"
    " isInteger sign url isURL getEscapedPath getHost getHostname getPort getQuery getScheme ip"
    " isIP ip.isCanonical cidr isCIDR containsCIDR containsIP family isGlobalUnicast masked"
    " isLinkLocalMulticast isLinkLocalUnicast isLoopback isUnspecified prefixLength timestamp"
    " duration format strings.quote getFullYear getMonth getDate getDayOfMonth getDayOfWeek"
    " getDayOfYear getHours getMinutes getSeconds getMilliseconds"
)
_SLOW_COST = 25
"""What those cost besides: a call takes Python some microseconds."""


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
}


def price_of(name: str) -> Callable[[Frame, Sequence[Any]], None] | None:
    """Return what charges for the arguments of a call; None if it costs nothing but itself."""
    price = _PRICES.get(name, _every)
    if name not in _SLOW:
        return None if price is _nothing else price

    def pay(frame: Frame, values: Sequence[Any]) -> None:
        charge(frame, _SLOW_COST)
        price(frame, values)

    return pay


# -- before


def estimate(name: str, kinds: Sequence[Type]) -> tuple[float, float]:
    """Return what a call costs at most, and the largest size of its result."""
    if name in _CONSTANT or not kinds:
        return 1, 1
    size = kinds[0].size
    if name in _REGULAR:
        pattern = kinds[1].size if len(kinds) > 1 else 0
        cost = up((size + 1) * TRAVERSAL) * up(pattern * _PATTERN)
        return cost, size
    if name in {"startsWith", "endsWith"}:
        return up(kinds[1].size * TRAVERSAL), 1
    if kinds[0].name == "list" and name in {
        "isSorted",
        "sum",
        "max",
        "min",
        "indexOf",
        "lastIndexOf",
    }:
        item = kinds[0].of[0]
        length = math.inf if kinds[0].computed else item.size
        each = 1 + (up(length * TRAVERSAL) if item.name in {"string", "bytes"} else 0)
        return size * each, item.size
    if name in {"sort", "distinct"}:
        return 10 + 2 * size * size, size
    if name.startswith("sets."):
        return size * kinds[1].size if size and kinds[1].size else 0, 1
    if name in {"slice", "reverse", "flatten"} and kinds[0].name == "list":
        return 10 + size, size
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


_TRAVERSED = _names(
    "url lowerAscii upperAscii substring trim cidr isIP isCIDR ip quantity isQuantity format bytes"
    " strings.quote ip.isCanonical reverse"
)


def _replaced_size(size: float, old: float, new: float) -> float:
    """Return the size of a text in which everything of a size is replaced by something else."""
    if not old:
        return (size + 1) * new + size if new else size
    # The shortest text to be replaced may be empty unless it is a literal.
    return (size + 1) * new + size if new else size
