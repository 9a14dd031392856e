"""Why a text is refused."""

from __future__ import annotations

from typing import Any

from traincrew.engine.decoding import MAX_OBJECT_BYTES, MAX_VALUES

__all__ = ["NullKeyError", "TooLargeError", "YamlError", "at", "unsupported"]


class YamlError(ValueError):
    """The text is refused; as text, it is in the words of Kubernetes' parser where that has any.

    Attributes:
        problem: For users.
        line: Where it is, counted from 1; None if unknown.
        column: As `line`.
    """

    def __init__(self, message: str, mark: Any = None, *, problem: str = "") -> None:
        super().__init__(message)
        self.problem = problem or message.removeprefix("yaml: ")
        self.line: int | None = None if mark is None else mark.line + 1
        self.column: int | None = None if mark is None else mark.column + 1


class TooLargeError(YamlError):
    """It has too many values, or is too large with its aliases expanded.

    Attributes:
        values: Whether it is the number of values.
    """

    def __init__(self, mark: Any, *, values: bool) -> None:
        self.values = values
        limit = f"more than {MAX_VALUES} values"
        if not values:
            limit = f"more than {MAX_OBJECT_BYTES >> 20} MiB"
        super().__init__(limit, mark, problem=f"{limit}, with aliases expanded")


class NullKeyError(YamlError):
    """A key is null.

    Attributes:
        value: What it is the key of.
    """

    def __init__(self, mark: Any, value: Any) -> None:
        self.value = value
        super().__init__("a key is null", mark, problem="a key is empty or null; put it in quotes")


def unsupported(text: str, mark: Any) -> YamlError:
    """Return the error for a number that JSON does not have."""
    shown = text if len(text) <= 20 else f"{text[:20]}..."
    problem = f"JSON has no such number: {shown}"
    return YamlError(f"json: unsupported value: {text[:100]}", mark, problem=problem)


def at(event: Any, problem: str) -> YamlError:
    """Return an error as Kubernetes' parser words it, with the line."""
    line = event.start_mark.line + 1
    return YamlError(f"yaml: line {line}: {problem}", event.start_mark, problem=problem)
