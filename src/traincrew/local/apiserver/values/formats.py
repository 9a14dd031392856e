"""String formats of schemas (kube-openapi ``pkg/validation/strfmt``)."""

from __future__ import annotations

import base64
import ipaddress
import re
from datetime import date, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["is_format"]

_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)\Z")
_DURATION = re.compile(r"[+-]?(0|((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)\Z")
_HOSTNAME = re.compile(
    r"(?=.{1,253}\Z)[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?"
    r"(\.[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?)*\Z"
)
_EMAIL = re.compile(r"[^@\s]+@[^@\s.]+(\.[^@\s.]+)*\Z")
_MAC = re.compile(r"([0-9A-Fa-f]{2}([:-]))([0-9A-Fa-f]{2}\2){4}[0-9A-Fa-f]{2}\Z")
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:\S+|/\S*)\Z")
_UUID = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\Z")


def _date_time(text: str) -> bool:
    if not _DATE_TIME.match(text):
        return False
    try:
        datetime.fromisoformat(text[:19].replace("t", "T").replace(" ", "T"))
    except ValueError:
        return False
    return True


def _date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return len(text) == 10


def _byte(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except ValueError:  # also for text that is not ASCII
        return False
    return True


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def test(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return test


def _cidr(text: str) -> bool:
    return "/" in text and _parses(lambda value: ipaddress.ip_network(value, strict=False))(text)


def _matches(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.match(text) is not None


_FORMATS: dict[str, Callable[[str], bool]] = {
    "byte": _byte,
    "cidr": _cidr,
    "date": _date,
    "date-time": _date_time,
    "datetime": _date_time,
    "duration": _matches(_DURATION),
    "email": _matches(_EMAIL),
    "hostname": _matches(_HOSTNAME),
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "mac": _matches(_MAC),
    "uri": _matches(_URI),
    "uuid": _matches(_UUID),
    "uuid3": _matches(_UUID),
    "uuid4": _matches(_UUID),
    "uuid5": _matches(_UUID),
}


def is_format(name: str, text: str) -> bool:
    """Return whether a text has the format; unknown formats accept every text."""
    test = _FORMATS.get(name)
    return test is None or test(text)
