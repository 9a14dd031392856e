"""Says a long explanation once, whoever tells it again."""

from __future__ import annotations

from collections import deque


class News:
    """Keeps one long explanation from being given by the event, the pod and the job in turn."""

    _LONG = 40
    """Shorter texts are said as often as they come."""
    _SAME = 100
    """Texts that share this many characters in a row share an explanation."""
    _STEP = 20
    _KEPT = 200

    def __init__(self) -> None:
        self._told: deque[str] = deque(maxlen=self._KEPT)

    def tell(self, text: str) -> str | None:
        """What of a text is new: all of it, what is around the old part, or (None) nothing."""
        if len(text) < self._LONG:
            return text
        # Some tellers begin with a capital letter, some do not.
        low = text.casefold()
        low = low if len(low) == len(text) else text
        for told in self._told:
            if low in told:
                return None
            if (shared := self._shared(low, told)) is not None:
                start, end = shared
                rest = text[end:].strip(" .,:;…")
                parts = (text[:start].strip(), "…", rest if len(rest) >= self._LONG else "")
                said = " ".join(part for part in parts if part)
                return said if said != "…" else None
        self._told.append(low)
        return text

    def _shared(self, text: str, told: str) -> tuple[int, int] | None:
        """Where in a text something stands that was told: all of it, or a long part."""
        at = text.find(told)
        if at >= 0:
            return at, at + len(told)
        for offset in range(0, len(told) - self._SAME + 1, self._STEP):
            at = text.find(told[offset : offset + self._SAME])
            if at >= 0:
                while at > 0 and offset > 0 and text[at - 1] == told[offset - 1]:
                    at, offset = at - 1, offset - 1  # noqa: PLW2901 - grows to its beginning
                end = at
                while end < len(text) and text[end : end + 1] == told[offset + end - at :][:1]:
                    end += 1
                return at, end
        return None
