"""Arithmetic on lists of quantities, such as ``{"cpu": "500m", "memory": "1Gi"}``. Pure.

A sum is written in the notation of its first non-zero operand, as
``k8s.io/apimachinery/pkg/api/resource`` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from traincrew.local.quantity import canonical, parse, render

__all__ = ["Amounts", "add", "exceeded", "increase", "masked", "negative", "same", "without_zeros"]

Amounts = Mapping[str, str]


def _sum(left: str, right: str, sign: int = 1) -> str:
    first, second = parse(left), parse(right)
    return render(first + sign * second, str(left) if first else str(right))


def add(left: Amounts, right: Amounts) -> dict[str, str]:
    """Return the sum, for every resource in either list.

    Raises:
        ValueError: a value is no quantity.
    """
    total = {name: canonical(value) for name, value in left.items()}
    for name, value in right.items():
        total[name] = _sum(total[name], value) if name in total else canonical(value)
    return total


def increase(new: Amounts, old: Amounts) -> dict[str, str]:
    """Return how much `new` exceeds `old`; zero for resources that decreased.

    Raises:
        ValueError: a value is no quantity.
    """
    more = {
        name: value if (value := _sum(new[name], old.get(name, "0"), -1))[:1] != "-" else "0"
        for name in new
    }
    return more | dict.fromkeys(old.keys() - new.keys(), "0")


def masked(amounts: Amounts, names: Iterable[str]) -> dict[str, str]:
    """Return only the named resources."""
    wanted = set(names)
    return {name: value for name, value in amounts.items() if name in wanted}


def without_zeros(amounts: Amounts) -> dict[str, str]:
    """Return the non-zero amounts."""
    return {name: value for name, value in amounts.items() if parse(value)}


def negative(amounts: Amounts) -> list[str]:
    """Return the names of negative amounts, sorted."""
    return sorted(name for name, value in amounts.items() if parse(value) < 0)


def exceeded(amounts: Amounts, limits: Amounts) -> list[str]:
    """Return the names of amounts above their limits, sorted."""
    return sorted(
        name
        for name, value in amounts.items()
        if name in limits and parse(value) > parse(limits[name])
    )


def same(left: Amounts, right: Amounts) -> bool:
    """Return whether both have the same amounts, in any notation."""
    return left.keys() == right.keys() and all(
        parse(value) == parse(right[name]) for name, value in left.items()
    )
