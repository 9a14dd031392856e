"""Rules for a single field that fields of many kinds share."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.schema.unversioned import form
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.names import port_name_fault

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = [
    "PROTOCOLS",
    "address",
    "amount",
    "at_most_everything",
    "immutable",
    "int_or_percent",
    "non_negative",
    "one_of",
    "port_number",
    "port_or_name",
]

_PORT_RANGE = "must be between 1 and 65535, inclusive"
_IMMUTABLE = "field is immutable"


def immutable(found: list[Cause], path: str, new: Any, old: Any, go_type: str = "") -> None:
    """Refuse any change; messages show a struct in its internal form (`schema.unversioned`)."""
    if new != old:
        shown = form(go_type, new) if go_type else new
        found.append(why.invalid(path, shown, _IMMUTABLE))


def non_negative(found: list[Cause], path: str, value: Any) -> None:
    """Refuse numbers below zero; the field may be absent."""
    if value is not None and value < 0:
        found.append(why.invalid(path, value, "must be greater than or equal to 0"))


def port_number(found: list[Cause], path: str, value: Any) -> None:
    """Validate a port number."""
    if not 1 <= value <= 65535:
        found.append(why.invalid(path, value, _PORT_RANGE))


def service_port(found: list[Cause], path: str, value: Any) -> None:
    """Validate the port of a Service that the API server itself calls."""
    if not 1 <= value <= 65535:
        found.append(why.invalid(path, value, f"port is not valid: {_PORT_RANGE}"))


def port_or_name(found: list[Cause], path: str, value: Any) -> None:
    """Validate a port number or port name."""
    if type(value) is str:
        fault = port_name_fault(value)
        if fault:
            found.append(why.invalid(path, value, fault))
    else:
        port_number(found, path, value or 0)


def one_of(
    found: list[Cause], document: Document, key: str, path: str, supported: tuple[str, ...]
) -> None:
    """Validate a field with a fixed set of values."""
    value = document.get(key)
    if value is not None and value not in supported:
        found.append(why.not_supported(f"{path}.{key}", value, supported))


PROTOCOLS = ("SCTP", "TCP", "UDP")


def address(found: list[Cause], value: str, path: str) -> None:
    """Validate an IP address."""
    try:
        ipaddress.ip_address(value)
    except ValueError:
        detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        found.append(why.invalid(path, value, detail))


def int_or_percent(found: list[Cause], path: str, value: Any) -> None:
    """Validate a non-negative number or a percentage."""
    if type(value) is int:
        non_negative(found, path, value)
    elif not re.fullmatch(r"[0-9]+%", value):
        detail = (
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',"
            "  or '93%', regex used for validation is '[0-9]+%')"
        )
        found.append(why.invalid(path, value, detail))


def at_most_everything(found: list[Cause], path: str, value: Any) -> None:
    """Refuse percentages above 100."""
    if type(value) is str and re.fullmatch(r"[0-9]+%", value) and int(value[:-1]) > 100:
        found.append(why.invalid(path, value, "must not be greater than 100%"))


def amount(value: Any) -> int:
    """Return a number or percentage as a plain number."""
    text = str(value).removesuffix("%")
    return int(text) if text.isdigit() else 0
