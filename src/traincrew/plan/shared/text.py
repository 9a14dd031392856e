"""Text that programs wrote: made safe to store and to show, and searched for exceptions.

What a program writes reaches statuses, events and logs, and from there the terminals of people.
"""

from __future__ import annotations

import re

_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movements, erasing
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"  # OSC: titles, links
    r"|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x9c\n]*(?:\x1b\\|\x9c)?"  # other strings
    r"|\x1b[ -/]*[0-~]"  # two-character escapes
)
"""A string that is not ended ends with its line, so that it cannot hide the lines after it."""
_BREAKS = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_TAGS = r"(?:\[[^\]]*\](?:<\w+>)?: ?)*"
_EXCEPTION = re.compile(
    rf"(?P<tags>{_TAGS})"
    r"(?P<text>[A-Za-z_][\w.]*(?:Error|Exception)(?:: \S.*)?)"
)
"""Also after the tags of launchers, such as ``[rank1]:`` or ``[1,0]<stderr>:``.

torchrun ends its own traceback with a ``ChildFailedError:`` with nothing after the colon.
"""


def printable(text: str) -> str:
    """Return a text without what is not printed: control sequences, control and format characters.

    Format characters are those that change the direction of text or have no width. Line breaks of
    any kind become newlines, other white space but tabs becomes spaces.
    """
    if text.isprintable():
        return text
    lines = _BREAKS.sub("\n", _SEQUENCE.sub("", text))
    return "".join(map(_shown, lines))


def _shown(character: str) -> str:
    if character.isprintable() or character in "\n\t":
        return character
    return " " if character.isspace() else ""


def exceptions_in(text: str) -> list[tuple[str, str]]:
    """Return tags and text of each line of a log that names an exception, in order."""
    found = (_EXCEPTION.fullmatch(line.strip()) for line in text.splitlines())
    return [(line["tags"], line["text"]) for line in found if line is not None]


def each_once(lines: list[str]) -> list[str]:
    """Return lines without earlier copies: what several ranks say is said by the last one.

    The tags of launchers do not tell two lines apart.
    """
    last = {re.sub(rf"^{_TAGS}", "", line): index for index, line in enumerate(lines)}
    return [lines[index] for index in sorted(last.values())]
