"""CEL functions of values that are parsed from texts: URLs, addresses, quantities, versions.

See "Kubernetes CEL libraries" in the Kubernetes documentation. URLs, addresses and quantities are
represented as maps with one entry; only these functions read them.
"""

from __future__ import annotations

import ipaddress
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from traincrew.local import quantity

from .namedformats import FORMATS, NamedFormat, uri_fault
from .operators import CelError, Optional
from .semanticversions import SemanticVersion, parse_version

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PARSED"]

# --- URLs ---------------------------------------------------------------------------------------


def _url(text: str) -> dict[str, str]:
    fault = uri_fault(text)
    if fault:
        raise CelError(f"URL parse error during conversion from string: {fault}")
    return {"url": text}


def _query(url: dict[str, str]) -> dict[str, list[str]]:
    return parse_qs(urlsplit(url["url"]).query, keep_blank_values=True)


# --- addresses ----------------------------------------------------------------------------------

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _is(parse: Callable[..., object]) -> Callable[..., bool]:
    def test(*arguments: Any) -> bool:
        try:
            parse(*arguments)
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


# --- what quantities and versions share, and named formats ---------------------------------------


def _compared(left: Any, right: Any) -> int:
    if type(left) is SemanticVersion:
        return left.compare(right)
    return _compare(left, right)


def _validate(named: NamedFormat, text: str) -> Optional:
    faults = named.faults(text)
    return Optional(faults) if faults else Optional()


PARSED: dict[str, Callable[..., Any]] = {
    # URLs
    "getEscapedPath": lambda url: urlsplit(url["url"]).path,
    "getHost": lambda url: urlsplit(url["url"]).netloc.rpartition("@")[2],
    "getHostname": lambda url: urlsplit(url["url"]).hostname or "",
    "getPort": lambda url: str(urlsplit(url["url"]).port or ""),
    "getQuery": _query,
    "getScheme": lambda url: urlsplit(url["url"]).scheme,
    "isURL": lambda text: not uri_fault(text),
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
    "compareTo": _compared,
    "isGreaterThan": lambda left, right: _compared(left, right) > 0,
    "isInteger": lambda value: _number(value).denominator == 1,
    "isLessThan": lambda left, right: _compared(left, right) < 0,
    "isQuantity": _is(quantity.parse),
    "quantity": _quantity,
    "sign": lambda value: _compare(value, {"quantity": "0"}),
    "sub": lambda left, right: {"quantity": str(_number(left) - _number(right))},
    # versions
    "isSemver": _is(parse_version),
    "major": lambda version: version.major,
    "minor": lambda version: version.minor,
    "patch": lambda version: version.patch,
    "semver": parse_version,
    # named formats
    **{f"format.{name}": lambda named=named: named for name, named in FORMATS.items()},
    "format.named": lambda name: Optional(FORMATS[name]) if name in FORMATS else Optional(),
    "validate": _validate,
}
