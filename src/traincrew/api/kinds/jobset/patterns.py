"""Patterns of failure policies: which regular expressions are safe to look for.

JobSet uses RE2, whose time is linear in the text. Python's grows exponentially with repetitions in
repetitions, so such patterns are refused; and so are those that RE2 does not know.
"""

from __future__ import annotations

import re
import warnings
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_REPETITIONS = 3
"""Repetitions without a limit in one pattern: each multiplies the time by the text's length."""
_MANY = 8
"""A repetition of at least this many times counts as one without a limit."""
_REPEATS = {sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT}
_UNKNOWN = {sre.ASSERT, sre.ASSERT_NOT, sre.GROUPREF, sre.GROUPREF_EXISTS}


def problem(pattern: str) -> str:
    """Return what is wrong with a pattern; empty if it can be used."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(pattern)
            parsed = _parser.parse(pattern)
    except (re.error, RecursionError, OverflowError, Warning) as error:
        return f"it is not a regular expression: {error}"
    try:
        count = _repetitions(parsed, nested=False)
    except ValueError as error:
        return str(error)
    if count > MAX_REPETITIONS:
        return f"it has {count} repetitions such as .*; at most {MAX_REPETITIONS} are possible"
    return ""


def _repetitions(node: Iterable[Any], *, nested: bool) -> int:
    """Return the number of repetitions without a limit.

    Raises:
        ValueError: One is in another, or the pattern has what RE2 does not know.
    """
    count = 0
    for operation, argument in node:
        if operation in _UNKNOWN:
            raise ValueError("it refers to groups, or looks around, which RE2 does not know")
        if operation in _REPEATS:
            _, most, inner = argument
            many = most >= _MANY
            if many and nested:
                raise ValueError("it has a repetition in a repetition; write it without")
            count += many + _repetitions(inner, nested=nested or many)
        elif operation is sre.SUBPATTERN:
            count += _repetitions(argument[-1], nested=nested)
        elif operation is sre.BRANCH:
            if nested:
                raise ValueError("it repeats alternatives; write a class of characters, or one")
            count += sum(_repetitions(each, nested=nested) for each in argument[1])
        elif operation is sre.ATOMIC_GROUP:
            count += _repetitions(argument, nested=nested)
    return count
