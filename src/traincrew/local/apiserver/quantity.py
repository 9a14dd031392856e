"""Resource quantities: ``100m``, ``1.5``, ``2Gi``, ``1e3``."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

__all__ = ["canonical", "parse"]

_FORM = re.compile(r"([+-]?)(\d+(?:\.\d*)?|\.\d+)(.*)", re.DOTALL)
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
    """The exact number a quantity stands for.

    Raises:
        ValueError: it is no quantity.
    """
    match = _FORM.fullmatch(str(value))
    if match is None:
        raise ValueError(f"{value!r} is not a quantity")
    sign, digits, suffix = match.groups()
    if suffix in _SUFFIXES:
        factor = _SUFFIXES[suffix]
    else:
        exponent = re.fullmatch(r"[eE]([+-]?\d{1,3})", suffix)
        if exponent is None:
            raise ValueError(f"{value!r} is not a quantity")
        factor = Fraction(10) ** int(exponent[1])
    number = Fraction(digits) * factor
    return -number if sign == "-" else number


_DECIMAL = {-9: "n", -6: "u", -3: "m", 0: "", **dict(zip(range(3, 21, 3), "kMGTPE", strict=True))}
_BINARY = dict(zip(range(1, 7), ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), strict=True))
_LARGEST = 2**63 - 1
# Digits upstream handles as a 64-bit number, without arithmetic of any size.
_FAST_DIGITS = 18


@lru_cache(maxsize=4096)
def canonical(value: str | float) -> str:
    """A quantity as a Go program writes it: ``1024Mi`` becomes ``1Gi``, ``0.5`` becomes ``500m``.

    What is in that form already (or nearly: ``1.500``, ``010``) stays as it is. Semantics:
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


def _exponent(suffix: str) -> int:
    for exponent, unit in _DECIMAL.items():
        if unit == suffix:
            return exponent
    return int(suffix[1:])


def _keeps_binary(digits: str, suffix: str) -> bool:
    """Whether a binary quantity is taken over as it was written."""
    power = next(power for power, unit in _BINARY.items() if unit == suffix)
    room = 15 - len(digits) - int(power * 10 * 3 / 10) - 1
    fits = int(digits) << power * 10 <= _LARGEST
    return room >= 0 and fits and int(digits) % 8 != 0


def _binary(number: Fraction) -> str:
    magnitude = min(_rounded(abs(number)), Fraction(_LARGEST))
    if magnitude < 1024 or magnitude.denominator != 1:
        return _decimal(-magnitude if number < 0 else magnitude, exponential=False)
    amount, power = int(magnitude), 0
    while amount % 1024 == 0:
        amount, power = amount // 1024, power + 1
    sign = "-" if number < 0 else ""
    return f"{sign}{amount}{_BINARY.get(power, '')}"


def _rounded(magnitude: Fraction) -> Fraction:
    """Up to whole billionths: whoever asks for something gets something."""
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
