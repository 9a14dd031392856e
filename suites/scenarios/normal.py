"""Replaces what differs between any two runs by words that say what it was.

UIDs become `<uid of Pod mpi-master-<1>>`, random suffixes numbers in the order of creation, and
times, addresses, node names and hashes their kinds. What remains can be compared.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .recording import Document, Observation

# Names of pods made by Jobs and ReplicaSets end in five of these letters (apiserver names).
_RANDOM = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}$")
_PATTERNS = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"), "<time>"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "<uid>"),
    (
        re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL),
        "<certificate>",
    ),
    (re.compile(r"\b(?:containerd|traincrew)://\S+?(?=[\"',\s]|$)"), "<container>"),
    (re.compile(r"\bsha256:[0-9a-f]{64}\b"), "<digest>"),
    (re.compile(r"\b\d{1,3}(\.\d{1,3}){3}\b"), "<ip>"),
    (re.compile(r"(?<= )\d+\.\d s$", re.MULTILINE), "<seconds>"),
    (re.compile(r"\bkube-api-access-[a-z0-9]{5}\b"), "kube-api-access-<random>"),
)


class Normaliser:
    """Knows the names of one recording.

    Args:
        observations: The whole recording, in order.
        nodes: Names of the cluster's nodes.
    """

    def __init__(self, observations: Iterable[Observation], nodes: Iterable[str]) -> None:
        self._words: dict[str, str] = dict.fromkeys(nodes, "<node>")
        made: dict[str, int] = {}
        for seen in observations:
            if seen.change != "ADDED" or seen.uid in self._words or seen.kind == "Event":
                continue
            stem = _stem(seen.kind, seen.document)
            if stem is not None and seen.name not in self._words:
                made[stem] = made.get(stem, 0) + 1
                self._words[seen.name] = f"{stem}<{made[stem]}>"
            if seen.kind == "ControllerRevision":
                self._words[seen.name.removeprefix(stem or "")] = f"<{made[stem or '']}>"
            name = self._words.get(seen.name, seen.name)
            self._words[seen.uid] = f"<uid of {seen.kind} {name}>"
            self._words[seen.uid[:8]] = f"<short uid of {seen.kind} {name}>"
        longest_first = sorted(map(re.escape, self._words), key=len, reverse=True)
        self._known = re.compile(rf"(?<![a-z0-9])(?:{'|'.join(longest_first)})(?![a-z0-9])")

    def text(self, text: str) -> str:
        """A text with everything replaced."""
        text = self._known.sub(lambda match: self._words[match[0]], text)
        for pattern, word in _PATTERNS:
            text = pattern.sub(word, text)
        return text

    def name(self, name: str) -> str:
        """An object's name."""
        return self._words.get(name, name)

    def lines(self, value: Any, path: str = "") -> list[str]:
        """Plain data as one line for each leaf: `path: value`, in the order of the paths."""
        if isinstance(value, dict) and value:
            return [
                line
                for key in sorted(value)
                for line in self.lines(value[key], f"{path}.{key}" if path else self.text(key))
            ]
        if isinstance(value, list) and value:
            return [
                line
                for index, item in enumerate(value)
                for line in self.lines(item, f"{path}[{_label(item, index)}]")
            ]
        text = self.text(value) if isinstance(value, str) else repr(value)
        return [f"{path}: {text}" if "\n" not in text else f"{path}: {text!r}"]


def _label(item: Any, index: int) -> str | int:
    """How an item of a list is called: by its name or type, which outlives a changed order."""
    if isinstance(item, dict):
        for key in ("name", "type", "key"):
            if isinstance(item.get(key), str) and not _RANDOM.search(item[key]):
                return str(item[key])
    return index


def _stem(kind: str, document: Document) -> str | None:
    """The part of a name that is the same in every run; None if all of it is."""
    metadata = document["metadata"]
    name: str = metadata["name"]
    if kind == "ControllerRevision":
        return name.rpartition("-")[0] + "-"
    generated = metadata.get("generateName")
    if kind == "Pod" and generated and _RANDOM.search(name):
        return str(generated)
    return None
