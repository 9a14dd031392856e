"""Resource quantities as the scheduler counts them: exact integers. Pure."""

from __future__ import annotations

import math
from functools import lru_cache

from traincrew.local.quantity import parse


@lru_cache(maxsize=4096)
def amount(resource: str, value: str | int) -> int:
    """Convert a quantity to an integer: thousandths of a cpu, else whole units, rounded up.

    Raises:
        ValueError: The value is not a quantity.
    """
    number = parse(value)
    return math.ceil(number * 1000 if resource == "cpu" else number)
