"""Regular expressions that clients choose: RE2, which takes linear time, as Go's package does.

Python's own engine backtracks: ``^(a+)+$`` takes for ever on a few dozen characters.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MAX_STEPS", "Pattern", "RegexError", "StoredPattern", "compile_pattern"]

MAX_STEPS = 30_000_000
"""Instructions of a pattern times characters of a text: what one search may take at worst.

Nearly always it takes a step for each character; at worst, one for each instruction, of about 4 ns.
"""

_MEMORY = 4 * 1024 * 1024
_MAX_PATTERN = 20_000  # characters; compiling takes microseconds for each

# Go's words for RE2's errors; the text of the error is in backquotes.
_WORDS = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "no argument for repetition operator": "missing argument to repetition operator",
    "pattern too large - compile failed": "expression too large",
    "invalid named capture group": "invalid named capture",
}


class RegexError(ValueError):
    """The text is not a regular expression of RE2; the message is Go's."""


class Pattern:
    """A compiled regular expression.

    Attributes:
        source: its text.
        size: its instructions.
    """

    def __init__(self, source: str) -> None:
        # Imported with the first pattern: most clusters have none.
        import re2

        options = re2.Options()
        options.log_errors = False
        options.max_mem = _MEMORY
        if len(source) > _MAX_PATTERN:
            raise RegexError("error parsing regexp: expression too large")
        try:
            self._compiled = re2.compile(source, options=options)
        except re2.error as error:
            raise RegexError(_in_words_of_go(error, source)) from None
        except UnicodeEncodeError:
            raise RegexError("error parsing regexp: invalid UTF-8") from None
        self.source = source
        self.size: int = self._compiled.programsize

    def allows(self, text: str) -> bool:
        """Return whether a search of a text takes few enough steps."""
        return self.size * len(text) <= MAX_STEPS

    def search(self, text: str) -> bool:
        """Return whether the pattern matches anywhere in a text that it allows."""
        return self._compiled.search(text) is not None

    def find(self, text: str) -> Iterator[str]:
        """Yield the matches in a text that it allows."""
        for match in self._compiled.finditer(text):
            yield match[0]


class StoredPattern:
    """A regular expression of a stored definition, compiled when it is first needed.

    Attributes:
        source: its text.
    """

    def __init__(self, source: str) -> None:
        self.source = source

    @cached_property
    def compiled(self) -> Pattern | None:
        """The pattern; None if RE2 refuses it: one of its releases may be stricter than others."""
        try:
            return Pattern(self.source)
        except RegexError:
            return None


def _in_words_of_go(error: Exception, source: str) -> str:
    detail = error.args[0] if error.args else ""
    text = detail.decode("utf-8", "replace") if isinstance(detail, bytes) else str(detail)
    what, _, where = text.partition(": ")
    what = _WORDS.get(what, what)
    if what == "expression too large":
        return f"error parsing regexp: {what}"
    return f"error parsing regexp: {what}: `{where or source}`"


@lru_cache(maxsize=512)
def compile_pattern(source: str) -> Pattern:
    """Compile a regular expression.

    Raises:
        RegexError: RE2 refuses it.
    """
    return Pattern(source)
