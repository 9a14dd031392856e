"""Suppresses repetitions of long messages."""

from __future__ import annotations

from collections import deque


class RepeatFilter:
    """Removes from a message what an earlier one contained.

    An event, the pod and the job often report the same long explanation.
    """

    _LONG = 40
    """Shorter texts are always shown."""
    _SAME = 100
    """Texts with this many consecutive characters in common repeat each other."""
    _STEP = 20
    _KEPT = 200

    def __init__(self) -> None:
        self._earlier: deque[str] = deque(maxlen=self._KEPT)

    def new_part(self, text: str) -> str | None:
        """Return the new part of a text: all of it, what is around the old part, or None."""
        if len(text) < self._LONG:
            return text
        # Some sources begin a message with a capital letter, some do not.
        low = text.casefold()
        low = low if len(low) == len(text) else text
        for earlier in self._earlier:
            if low in earlier:
                return None
            if (shared := self._shared(low, earlier)) is not None:
                start, end = shared
                rest = text[end:].strip(" .,:;…")
                parts = (text[:start].strip(), "…", rest if len(rest) >= self._LONG else "")
                said = " ".join(part for part in parts if part)
                return said if said != "…" else None
        self._earlier.append(low)
        return text

    def _shared(self, text: str, earlier: str) -> tuple[int, int] | None:
        """Return the range of a text that repeats an earlier one, or a long part of it."""
        at = text.find(earlier)
        if at >= 0:
            return at, at + len(earlier)
        for offset in range(0, len(earlier) - self._SAME + 1, self._STEP):
            at = text.find(earlier[offset : offset + self._SAME])
            if at >= 0:
                while at > 0 and offset > 0 and text[at - 1] == earlier[offset - 1]:
                    at, offset = at - 1, offset - 1  # noqa: PLW2901 - grows to its beginning
                end = at
                while end < len(text) and text[end : end + 1] == earlier[offset + end - at :][:1]:
                    end += 1
                return at, end
        return None
