"""CEL functions: those of cel-go's extensions and of Kubernetes, and `conversions`.

See "Kubernetes CEL libraries" in the Kubernetes documentation. URLs, addresses and quantities are
represented as maps with one entry; only these functions read them.
"""

from __future__ import annotations

import ipaddress
import itertools
import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from traincrew.local import quantity
from traincrew.local.apiserver.values.regex import Pattern, RegexError, compile_pattern

from .conversions import CONVERSIONS, string
from .operators import CelError, CostExceededError, Optional

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
    if not 0 <= start <= end <= len(values):
        raise ValueError(f"index out of range: {start}, {end}")
    return values[start:end]


def _contains_all(left: list[Any], right: list[Any]) -> bool:
    return all(value in left for value in right)


def _greatest(*values: Any) -> Any:
    return max(values[0] if len(values) == 1 and isinstance(values[0], list) else values)


def _least(*values: Any) -> Any:
    return min(values[0] if len(values) == 1 and isinstance(values[0], list) else values)


# --- URLs ---------------------------------------------------------------------------------------


def _url(text: str) -> dict[str, str]:
    if not _is_url(text):
        shown = f'parse "{text[:100]}": invalid URI for request'
        raise ValueError(f"URL parse error during conversion from string: {shown}")
    return {"url": text}


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    absolute = bool(parts.scheme and (parts.netloc or parts.path))
    return absolute or (not parts.scheme and text.startswith("/"))


def _query(url: dict[str, str]) -> dict[str, list[str]]:
    return parse_qs(urlsplit(url["url"]).query, keep_blank_values=True)


# --- addresses ----------------------------------------------------------------------------------

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _is(parse: Callable[[str], object]) -> Callable[[Any], bool]:
    def test(text: Any) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return test


def _address(value: Any) -> _Address:
    return ipaddress.ip_address(value["ip"] if isinstance(value, dict) else value)


def _network(value: Any) -> ipaddress.IPv4Interface | ipaddress.IPv6Interface:
    text = value["cidr"] if isinstance(value, dict) else value
    if "/" not in text:
        raise ValueError(f"CIDR address {text!r} parse error: no prefix length")
    return ipaddress.ip_interface(text)


def _ip(value: Any) -> dict[str, str]:
    if isinstance(value, dict):  # cidr('…').ip()
        return {"ip": str(_network(value).ip)}
    return {"ip": str(_address(value))}


def _contains_network(outer: Any, inner: Any) -> bool:
    left, right = _network(outer).network, _network(inner).network
    return left.version == right.version and right.subnet_of(left)  # type: ignore[arg-type]


# --- quantities ---------------------------------------------------------------------------------


def _quantity(text: str) -> dict[str, str]:
    try:
        return {"quantity": str(quantity.parse(text))}
    except ValueError:
        form = "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        raise CelError(f"quantities must match the regular expression {form}") from None


def _number(value: Any) -> Fraction:
    return Fraction(value["quantity"] if isinstance(value, dict) else value)


def _compare(left: Any, right: Any) -> int:
    difference = _number(left) - _number(right)
    return (difference > 0) - (difference < 0)


def _as_integer(value: Any) -> int:
    number = _number(value)
    if number.denominator != 1:
        raise ValueError("cannot convert value to integer")
    return int(number)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **CONVERSIONS,
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
    # numbers
    "math.abs": abs,
    "math.greatest": _greatest,
    "math.least": _least,
    # URLs
    "getEscapedPath": lambda url: urlsplit(url["url"]).path,
    "getHost": lambda url: urlsplit(url["url"]).netloc.rpartition("@")[2],
    "getHostname": lambda url: urlsplit(url["url"]).hostname or "",
    "getPort": lambda url: str(urlsplit(url["url"]).port or ""),
    "getQuery": _query,
    "getScheme": lambda url: urlsplit(url["url"]).scheme,
    "isURL": _is_url,
    "url": _url,
    # addresses
    "cidr": lambda text: {"cidr": str(_network(text))},
    "containsCIDR": _contains_network,
    "containsIP": lambda outer, inner: _address(inner) in _network(outer).network,
    "family": lambda value: _address(value).version,
    "ip": _ip,
    "ip.isCanonical": lambda text: str(_address(text)) == text,
    "isCIDR": _is(_network),
    "isGlobalUnicast": lambda value: (
        not (
            _address(value).is_multicast
            or _address(value).is_loopback
            or _address(value).is_link_local
            or _address(value).is_unspecified
        )
    ),
    "isIP": _is(ipaddress.ip_address),
    "isLinkLocalMulticast": lambda value: (
        _address(value).is_multicast and str(_address(value)).startswith(("224.0.0.", "ff02:"))
    ),
    "isLinkLocalUnicast": lambda value: _address(value).is_link_local,
    "isLoopback": lambda value: _address(value).is_loopback,
    "isUnspecified": lambda value: _address(value).is_unspecified,
    "masked": lambda value: {"cidr": str(_network(value).network)},
    "prefixLength": lambda value: _network(value).network.prefixlen,
    # quantities
    "add": lambda left, right: {"quantity": str(_number(left) + _number(right))},
    "asApproximateFloat": lambda value: float(_number(value)),
    "asInteger": _as_integer,
    "compareTo": _compare,
    "isGreaterThan": lambda left, right: _compare(left, right) > 0,
    "isInteger": lambda value: _number(value).denominator == 1,
    "isLessThan": lambda left, right: _compare(left, right) < 0,
    "isQuantity": _is(quantity.parse),
    "quantity": _quantity,
    "sign": lambda value: _compare(value, {"quantity": "0"}),
    "sub": lambda left, right: {"quantity": str(_number(left) - _number(right))},
}
