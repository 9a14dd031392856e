"""Resource quantities: ``100m``, ``1.5``, ``2Gi``, ``1e3``."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

__all__ = ["parse"]

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
