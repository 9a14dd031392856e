"""Hints of the schema of the chart kube-openmpi: the key that is meant by one that does not exist.

They say what `traincrew.api.kinds.mpicluster.valuescheck` says.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from traincrew.api.kinds.mpicluster.valuescheck import hint, paths

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.operator.manifests.template import Document

_SHORTEST_TAIL = 4
"""Characters of the last words of a key that are taken for the key."""
_MOST_PLACES = 2
"""Places that a hint may name; of a key that is in many, none is the nearest."""


def hints(known: list[str], *, misplaced: bool) -> Document:
    """Return ``patternProperties`` for keys near to known ones; each says which key is meant.

    Of a value that a schema refuses with ``const``, Helm prints what it must be, not what it is.

    Args:
        known: The keys of one mapping.
        misplaced: Whether keys of other mappings are named as well, with their places.
    """
    found: Document = {}
    near = re.compile("|".join(map(one_edit, known)))
    for key in known:
        found[one_edit(key)] = _left_out(f"did you mean {key}?")
    for key in _others(known, misplaced=misplaced):
        text = hint(key, known, "")
        few = text.startswith("did you mean") and text.count(" or ") < _MOST_PLACES
        if few and not near.search(key):
            found[f"^{re.escape(key)}$"] = _left_out(text)
    return found


def _left_out(text: str) -> Document:
    return {"const": f"left out: no such key; {text}"}


def _others(known: list[str], *, misplaced: bool) -> Iterator[str]:
    """Yield words that may be written for a key, here or elsewhere, and are none here."""
    everywhere = [re.split(r"[.\]]+", path)[-1] for path in paths()] if misplaced else []
    words = [
        *(key.lower() for key in known),
        *(tail for key in known for tail in _tails(key)),
        *everywhere,
    ]
    yield from (word for word in dict.fromkeys(words) if word not in known)


def _tails(key: str) -> Iterator[str]:
    """Yield the last words of a key in camel case: ``podBudget``, ``budget``."""
    for at in re.finditer(r"(?<=[a-z])(?=[A-Z])", key):
        tail = key[at.start() :]
        if len(tail) >= _SHORTEST_TAIL:
            yield tail[0].lower() + tail[1:]


def one_edit(key: str) -> str:
    """Return a pattern of all words that one edit turns into a key.

    An edit is a character that is missing, another, or too many, or two that are exchanged.
    """
    found = []
    for index, char in enumerate(key):
        before, after = key[:index], key[index + 1 :]
        found += [before + after, f"{before}[^{char}]{after}", f"{before}.{key[index:]}"]
        if after and after[0] != char:
            found.append(before + after[0] + char + after[1:])
    return f"^({'|'.join(dict.fromkeys([*found, f'{key}.']))})$"
