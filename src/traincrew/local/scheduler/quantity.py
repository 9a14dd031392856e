"""Resource quantities such as `500m`, `2Gi` or `1e3`, as exact integers. Pure."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache

_SUFFIXES: dict[str, Decimal] = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal("1e3"),
    "M": Decimal("1e6"),
    "G": Decimal("1e9"),
    "T": Decimal("1e12"),
    "P": Decimal("1e15"),
    "E": Decimal("1e18"),
} | {letter + "i": Decimal(1024**power) for power, letter in enumerate("KMGTPE", 1)}


_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))([eE][+-]?\d+|[numkMGTPE]|[KMGTPE]i)?")


def parse_quantity(value: str | float) -> Decimal:
    """The exact number a quantity stands for.

    Raises:
        ValueError: Not a quantity.
    """
    if not isinstance(value, str):
        return Decimal(str(value))
    match = _QUANTITY.fullmatch(value)
    if match is None:
        raise ValueError(
            f"invalid quantity {value!r}: expected a number with a suffix such as 500m, 2 or 4Gi"
        )
    number, suffix = match.group(1), match.group(2) or ""
    if suffix in _SUFFIXES:
        return Decimal(number) * _SUFFIXES[suffix]
    return Decimal(number + suffix)


@lru_cache(maxsize=4096)
def amount(resource: str, value: str | int) -> int:
    """A quantity as the scheduler counts it: thousandths of a cpu, else whole units, rounded up.

    Raises:
        ValueError: Not a quantity.
    """
    number = parse_quantity(value)
    if resource == "cpu":
        number *= 1000
    return int(number.to_integral_value(rounding=ROUND_CEILING))
