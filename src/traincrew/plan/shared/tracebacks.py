"""Finds the lines of a log that end Python tracebacks."""

from __future__ import annotations

import re

_LINE = re.compile(
    r"(?P<tags>(?:\[[^\]]*\](?:<\w+>)?: ?)*)"
    r"(?P<text>[A-Za-z_][\w.]*(?:Error|Exception)(?:: \S.*)?)"
)
"""Also after the tags of launchers, such as ``[rank1]:`` or ``[1,0]<stderr>:``.

torchrun ends its own traceback with a ``ChildFailedError:`` with nothing after the colon.
"""


def exceptions(text: str) -> list[tuple[str, str]]:
    """Return tags and text of each line of a log that names an exception, in order."""
    found = (_LINE.fullmatch(line.strip()) for line in text.splitlines())
    return [(line["tags"], line["text"]) for line in found if line is not None]
