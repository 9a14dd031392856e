"""Resource quantities: ``500m``, ``1.5``, ``2Gi``, ``1e3``. Pure."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

__all__ = ["canonical", "parse", "render"]

# Sign, digits, and the rest, which should be a suffix or an exponent; never both.
_FORM = re.compile(r"([+-]?)(\d+(?:\.\d*)?|\.\d+)(.*)", re.DOTALL)
_EXPONENT = re.compile(r"[eE]([+-]?\d{1,3})")
_SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{unit: Fraction(1000**power) for power, unit in enumerate("kMGTPE", 1)},
    **{f"{unit}i": Fraction(1024**power) for power, unit in enumerate("KMGTPE", 1)},
}


@lru_cache(maxsize=4096)
def parse(value: str | float) -> Fraction:
    """Return the exact value of a quantity.

    Raises:
        ValueError: it is no quantity.
    """
    match = _FORM.fullmatch(str(value))
    if match is None:
        raise _not_a_quantity(value)
    sign, digits, suffix = match.groups()
    if suffix in _SUFFIXES:
        factor = _SUFFIXES[suffix]
    else:
        exponent = _EXPONENT.fullmatch(suffix)
        if exponent is None:
            raise _not_a_quantity(value)
        factor = Fraction(10) ** int(exponent[1])
    number = Fraction(digits) * factor
    return -number if sign == "-" else number


def _not_a_quantity(value: object) -> ValueError:
    return ValueError(f"{value!r} is not a quantity: write for instance 500m, 2 or 1Gi")


_DECIMAL = {-9: "n", -6: "u", -3: "m", 0: "", **dict(zip(range(3, 21, 3), "kMGTPE", strict=True))}
_BINARY = dict(zip(range(1, 7), ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), strict=True))
_MAX_INT64 = 2**63 - 1
# Up to this many digits upstream uses a 64-bit integer, beyond it arbitrary precision.
_FAST_DIGITS = 18


@lru_cache(maxsize=4096)
def canonical(value: str | float) -> str:
    """Return a quantity as Go writes it: ``1024Mi`` becomes ``1Gi``, ``0.5`` becomes ``500m``.

    Quantities in that form already (or nearly: ``1.500``, ``010``) are not changed. Semantics:
    ``k8s.io/apimachinery/pkg/api/resource/quantity.go``.

    Raises:
        ValueError: it is no quantity.
    """
    text = str(value)
    number = parse(value)
    match = _FORM.fullmatch(text)
    assert match is not None
    _, digits, suffix = match.groups()
    whole, _, fraction = digits.partition(".")
    whole = whole.lstrip("0")
    if not whole and not fraction and not suffix:
        return "0"
    whole = whole or "0"
    binary = suffix.endswith("i")
    if binary:
        if not fraction and _keeps_binary(whole, suffix):
            return text
        return _binary(number)
    exponent = _exponent(suffix)
    scale = exponent - len(fraction)
    shifted = whole + fraction
    fast = len(shifted) <= _FAST_DIGITS and scale >= -9
    if fast and not scale % 3 and not shifted.endswith("000") and shifted[0] != "0":
        return text
    return _decimal(number, exponential=suffix[:1] in {"e", "E"} and len(suffix) > 1)


def render(number: Fraction, like: str) -> str:
    """Return a number in the notation of a quantity: ``Ki`` stays ``Ki``, ``1e3`` stays ``1e3``.

    Raises:
        ValueError: `like` is no quantity.
    """
    match = _FORM.fullmatch(like)
    if match is None:
        raise ValueError(f"{like!r} is not a quantity")
    suffix = match[3]
    if suffix.endswith("i"):
        return _binary(number)
    return _decimal(number, exponential=suffix[:1] in {"e", "E"} and len(suffix) > 1)


def _exponent(suffix: str) -> int:
    for exponent, unit in _DECIMAL.items():
        if unit == suffix:
            return exponent
    return int(suffix[1:])


def _keeps_binary(digits: str, suffix: str) -> bool:
    """Return whether a binary quantity is kept as it was written."""
    power = next(power for power, unit in _BINARY.items() if unit == suffix)
    room = 15 - len(digits) - int(power * 10 * 3 / 10) - 1
    fits = int(digits) << power * 10 <= _MAX_INT64
    return room >= 0 and fits and int(digits) % 8 != 0


def _binary(number: Fraction) -> str:
    magnitude = min(_rounded(abs(number)), Fraction(_MAX_INT64))
    if magnitude < 1024 or magnitude.denominator != 1:
        return _decimal(-magnitude if number < 0 else magnitude, exponential=False)
    amount, power = int(magnitude), 0
    while amount % 1024 == 0:
        amount, power = amount // 1024, power + 1
    sign = "-" if number < 0 else ""
    return f"{sign}{amount}{_BINARY.get(power, '')}"


def _rounded(magnitude: Fraction) -> Fraction:
    """Round up to billionths, so that a small request does not become zero."""
    return Fraction(-((-magnitude * 10**9) // 1), 10**9)


def _decimal(number: Fraction, *, exponential: bool) -> str:
    magnitude = _rounded(abs(number))
    if not magnitude:
        return "0"
    amount, exponent = int(magnitude * 10**9), -9
    while amount % 1000 == 0:
        amount, exponent = amount // 1000, exponent + 3
    sign = "-" if number < 0 else ""
    if exponential:
        return f"{sign}{amount}e{exponent}" if exponent else f"{sign}{amount}"
    return f"{sign}{amount}{_DECIMAL.get(exponent, '')}"
