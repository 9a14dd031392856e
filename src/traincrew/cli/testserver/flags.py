"""Command lines as Go programs read them: ``--name=value``, ``--name value``, ``--switch``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

__all__ = ["FlagError", "Flags", "is_true", "parse"]

_TRUE = {"1", "t", "T", "TRUE", "true", "True"}
_FALSE = {"0", "f", "F", "FALSE", "false", "False"}
_MAX_SHOWN = 200


class FlagError(Exception):
    """A flag cannot be used; the message names it."""


class Flags(NamedTuple):
    """What a command line says.

    Attributes:
        values: of each known flag, its values in their order.
        unknown: flags that are not known, each with its value.
    """

    values: dict[str, list[str]]
    unknown: list[str]

    def last(self, name: str, default: str = "") -> str:
        """Return the value of a flag; the last one if it is given several times."""
        return self.values.get(name, [default])[-1]


def parse(words: Sequence[str], names: Collection[str], switches: Collection[str]) -> Flags:
    """Read a command line.

    The word after an unknown flag is its value, unless it is a flag as well.

    Args:
        words: the command line, without the program.
        names: flags with a value.
        switches: flags that may have one, after ``=``.

    Raises:
        FlagError: a value is missing, or a word is no flag.
    """
    values: dict[str, list[str]] = {}
    unknown: list[str] = []
    rest = list(reversed(words))
    while rest:
        word = rest.pop()
        if not word.startswith("-") or not word.strip("-"):
            raise FlagError(f"unexpected argument {word[:_MAX_SHOWN]!r}: only flags are known")
        name, has_value, value = word.lstrip("-").partition("=")
        if name in switches:
            values.setdefault(name, []).append(value if has_value else "true")
            continue
        follows = rest and (name in names or not rest[-1].startswith("-"))
        if not has_value and follows:
            value = rest.pop()
        elif not has_value and name in names:
            raise FlagError(f"--{name}: flag needs an argument")
        if name in names:
            values.setdefault(name, []).append(value)
        else:
            unknown.append(f"--{name}={value}" if value else f"--{name}")
    return Flags(values, unknown)


def is_true(name: str, value: str) -> bool:
    """Return what the value of a switch means, as Go's ``strconv.ParseBool`` does.

    Raises:
        FlagError: it means nothing.
    """
    if value in _TRUE or value in _FALSE:
        return value in _TRUE
    raise FlagError(f"--{name}: {value[:_MAX_SHOWN]!r} is neither true nor false")
