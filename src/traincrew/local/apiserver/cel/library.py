"""CEL functions that Kubernetes adds and the CEL library does not have.

See "Kubernetes CEL libraries" in the Kubernetes documentation. URLs, addresses and quantities are
represented as maps with one entry; only these functions read them.
"""

from __future__ import annotations

import base64
import ipaddress
import itertools
import math
import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from traincrew.local import quantity

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["BUILT_IN", "FUNCTIONS"]

# What the CEL library provides itself (operators aside).
BUILT_IN = frozenset(
    re.findall(
        r"[\w.]+",
        "bytes contains double duration dyn endsWith getDate getDayOfMonth getDayOfWeek"
        " getDayOfYear getFullYear getHours getMilliseconds getMinutes getMonth getSeconds has"
        " hasValue int matches optional.none optional.of orValue startsWith string timestamp type"
        " uint value all exists exists_one filter map",
    )
)


# --- strings ------------------------------------------------------------------------------------


def _size(value: Any) -> int:
    # The library counts the bytes of a string; CEL counts its characters.
    return len(value)


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


def _format(template: str, arguments: list[Any]) -> str:
    values = iter(arguments)

    def show(match: re.Match[str]) -> str:
        precision, kind = match.groups()
        if kind == "%":
            return "%"
        value = next(values)
        if kind == "s":
            return _text(value)
        if kind == "d":
            return str(int(value))
        if kind in "fe":
            return f"{value:.{precision or 6}{kind}}"
        if kind in "xX" and isinstance(value, str):
            return value.encode().hex() if kind == "x" else value.encode().hex().upper()
        return format(int(value), kind)

    return re.sub(r"%(?:\.(\d+))?([%sdfexXob])", show, template)


def _text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(map(_text, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text(key)}: {_text(value[key])}" for key in sorted(value)) + "}"
    return str(value)


def _find(text: str, pattern: str) -> str:
    match = re.search(pattern, text)
    return match[0] if match else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = [match[0] for match in re.finditer(pattern, text)]
    return found if limit < 0 else found[:limit]


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
        raise ValueError(f"URL parse error during conversion from string: {text}")
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
    return {"quantity": str(quantity.parse(text))}


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
    "size": _size,
    # strings
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
    "base64.encode": lambda value: base64.b64encode(value).decode(),
    "base64.decode": base64.b64decode,
    # lists
    "distinct": _distinct,
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
    "math.ceil": lambda value: float(math.ceil(value)),
    "math.floor": lambda value: float(math.floor(value)),
    "math.greatest": _greatest,
    "math.least": _least,
    "math.round": lambda value: float(math.floor(abs(value) + 0.5)) * (1 if value >= 0 else -1),
    "math.sign": lambda value: type(value)((value > 0) - (value < 0)),
    "math.trunc": lambda value: float(math.trunc(value)),
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
