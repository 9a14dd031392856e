"""Functions of CEL itself: conversions, timestamps and durations, optional values."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import TYPE_CHECKING, Any

from .operators import CelError, Optional, no_such_overload, type_name
from .syntax import Unsigned

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CONVERSIONS", "TypeName", "parse_duration"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = {"ns": 1e-3, "us": 1, "µs": 1, "μs": 1, "ms": 1e3, "s": 1e6, "m": 6e7, "h": 3.6e9}
_DURATION = re.compile(
    r"[+-]?(?:(?:\d{1,19}(?:\.\d{0,19})?|\.\d{1,19})(?:ns|us|µs|μs|ms|s|m|h)){1,9}"
)
_DURATION_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_ZONE = re.compile(r"([+-]?)(\d\d):(\d\d)")


class TypeName(str):
    """A type as a value: ``type(self) == string``."""

    __slots__ = ()


def _not_converted(wanted: str) -> CelError:
    return CelError(f"type conversion error from 'string' to '{wanted}'")


def parse_duration(text: str) -> timedelta:
    """Parse a duration such as ``1h30m``.

    Raises:
        CelError: it is none.
    """
    if text in {"0", "+0", "-0"}:
        return timedelta()
    if not _DURATION.fullmatch(text):
        raise _not_converted("google.protobuf.Duration")
    microseconds = sum(
        float(number) * _UNITS[unit] for number, unit in _DURATION_PART.findall(text)
    )
    try:
        span = timedelta(microseconds=microseconds)
    except OverflowError:
        raise _not_converted("google.protobuf.Duration") from None
    return -span if text.startswith("-") else span


def _timestamp(value: Any) -> datetime:
    if type(value) is datetime:
        return value
    if type(value) is str:
        try:
            moment = datetime.fromisoformat(value[:64].replace("z", "Z"))
        except ValueError:
            raise _not_converted("google.protobuf.Timestamp") from None
        if moment.tzinfo is None:
            raise _not_converted("google.protobuf.Timestamp")
        return moment
    if type(value) is int:
        try:
            return _EPOCH + timedelta(seconds=value)
        except OverflowError:
            raise CelError("timestamp overflow") from None
    raise no_such_overload()


def _duration(value: Any) -> timedelta:
    if type(value) is timedelta:
        return value
    if type(value) is str:
        return parse_duration(value)
    raise no_such_overload()


def _number_text(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return repr(value)


def string(value: Any) -> str:
    """Convert to a ``string``."""
    kind = type(value)
    if kind is str:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is int or kind is Unsigned:
        return str(int(value))
    if kind is float:
        return _number_text(value)
    if kind is bytes:
        try:
            return str(value, "utf-8")
        except UnicodeDecodeError:
            raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None
    if kind is datetime:
        text: str = value.isoformat()
        if "." in text:
            whole, _, rest = text.partition(".")
            text = f"{whole}.{rest[:6].rstrip('0')}{rest[6:]}"
        return text.replace("+00:00", "Z")
    if kind is timedelta:
        return f"{_number_text(value / timedelta(seconds=1))}s"
    if kind is TypeName:
        return str.__str__(value)
    if kind is dict and len(value) == 1:  # an address or network
        return str(value.get("ip") or value.get("cidr") or _no_text())
    raise no_such_overload()


def _no_text() -> str:
    raise no_such_overload()


def _integer(value: Any) -> int:
    kind = type(value)
    if kind is str:
        if not re.fullmatch(r"[+-]?\d{1,19}", value):
            raise _not_converted("int")
    elif kind is float:
        if not -(2.0**63) < value < 2.0**63:  # not a number, too
            raise CelError("integer overflow")
    elif kind is datetime:
        return int((value - _EPOCH) // timedelta(seconds=1))
    elif kind is not int and kind is not Unsigned:
        raise no_such_overload()
    number = int(value)
    if not -(1 << 63) <= number < 1 << 63:
        raise CelError("integer overflow")
    return number


def _unsigned(value: Any) -> Unsigned:
    kind = type(value)
    if kind is str:
        if not re.fullmatch(r"\d{1,20}", value):
            raise _not_converted("uint")
    elif kind is float:
        if not -1 < value < 2.0**64:
            raise CelError("unsigned integer overflow")
    elif kind is not int and kind is not Unsigned:
        raise no_such_overload()
    number = int(value)
    if not 0 <= number < 1 << 64:
        raise CelError("unsigned integer overflow")
    return Unsigned(number)


def _double(value: Any) -> float:
    if type(value) is str:
        try:
            return float(value[:400])
        except ValueError:
            raise _not_converted("double") from None
    if type(value) in {int, float, Unsigned}:
        return float(value)
    raise no_such_overload()


def _bool(value: Any) -> bool:
    if type(value) is bool:
        return value
    if value in {"1", "t", "T", "true", "TRUE", "True"}:
        return True
    if value in {"0", "f", "F", "false", "FALSE", "False"}:
        return False
    raise _not_converted("bool")


def _bytes(value: Any) -> bytes:
    if type(value) is bytes:
        return value
    if type(value) is str:
        return value.encode()
    raise no_such_overload()


# -- times


def _zone(name: str) -> tzinfo:
    match = _ZONE.fullmatch(name)
    if match:
        offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
        if offset < timedelta(days=1):
            return timezone(-offset if match[1] == "-" else offset)
    elif name != "UTC":
        from zoneinfo import ZoneInfo

        try:
            return ZoneInfo(name[:100])
        except (OSError, ValueError):
            raise CelError(f"unknown time zone {name[:100]}") from None
    return UTC


def _getter(
    read: Callable[[datetime], int], unit: timedelta | None = None, rest: bool = False
) -> Callable[..., int]:
    """Return a function that reads a part of a timestamp, or counts units of a duration."""

    def get(value: Any, *zones: str) -> int:
        if type(value) is timedelta and unit is not None and not zones:
            if rest:
                value %= timedelta(seconds=1)
            return int(value / unit)
        if type(value) is not datetime:
            raise no_such_overload()
        return read(value.astimezone(_zone(zones[0]) if zones else UTC))

    return get


# -- optional values


def _value(value: Optional) -> Any:
    if not value.present:
        raise CelError("optional.none() dereference")
    return value.value


def _present(values: list[Optional]) -> list[Any]:
    return [each.value for each in values if each.present]


def _is_zero(value: Any) -> bool:
    return value is None or (
        type(value) is not datetime and type(value) is not TypeName and not value
    )


CONVERSIONS: dict[str, Callable[..., Any]] = {
    "bool": _bool,
    "bytes": _bytes,
    "double": _double,
    "duration": _duration,
    "dyn": lambda value: value,
    "int": _integer,
    "string": string,
    "timestamp": _timestamp,
    "type": lambda value: TypeName(type_name(value)),
    "uint": _unsigned,
    "getFullYear": _getter(lambda moment: moment.year),
    "getMonth": _getter(lambda moment: moment.month - 1),
    "getDate": _getter(lambda moment: moment.day),
    "getDayOfMonth": _getter(lambda moment: moment.day - 1),
    "getDayOfWeek": _getter(lambda moment: moment.isoweekday() % 7),
    "getDayOfYear": _getter(lambda moment: moment.timetuple().tm_yday - 1),
    "getHours": _getter(lambda moment: moment.hour, timedelta(hours=1)),
    "getMinutes": _getter(lambda moment: moment.minute, timedelta(minutes=1)),
    "getSeconds": _getter(lambda moment: moment.second, timedelta(seconds=1)),
    "getMilliseconds": _getter(
        lambda moment: moment.microsecond // 1000, timedelta(milliseconds=1), rest=True
    ),
    "optional.of": Optional,
    "optional.ofNonZeroValue": lambda value: Optional() if _is_zero(value) else Optional(value),
    "optional.none": Optional,
    "hasValue": lambda value: value.present,
    "value": _value,
    "optional.unwrap": _present,
    "unwrapOpt": _present,
}
