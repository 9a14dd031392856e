"""Kubernetes quantities: `500m`, `1Gi`, `2`, `1e3`. Pure."""

from __future__ import annotations

import re
from decimal import Decimal

__all__ = ["parse_quantity"]

_SUFFIXES = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)([numkKMGTPE]?i?)")


def parse_quantity(value: str | float) -> Decimal:
    """The number a quantity stands for, exactly.

    Raises:
        ValueError: It is not a quantity.
    """
    text = str(value).strip()
    match = _QUANTITY.fullmatch(text)
    if match is None or match[2] not in _SUFFIXES:
        raise ValueError(f"{text!r} is not a quantity: write for instance 500m, 2 or 1Gi")
    return Decimal(match[1]) * _SUFFIXES[match[2]]
