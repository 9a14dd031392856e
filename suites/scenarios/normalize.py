"""Replaces what differs between any two runs by placeholders.

UIDs become `<uid of Pod mpi-master-<1>>`, random suffixes numbers in the order of creation, and
times, addresses, node names and hashes their kinds. What remains can be compared.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from traincrew.plan.shared import podrecords

from .recording import JOB_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traincrew.plan.shared.podrecords.text import PodRecord

    from .recording import Document, Observation

# Names of pods made by Jobs and ReplicaSets end in five of these letters (apiserver names).
_RANDOM = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}$")
_RUNTIME_ID = "<runtime id>"
_PATTERNS = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"), "<time>"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "<uid>"),
    (
        re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL),
        "<certificate>",
    ),
    # The ssh keys of an MPICluster, encoded in its Secret.
    (re.compile(r"\bLS0tLS1CRUdJTiBPUEVOU1NI[A-Za-z0-9+/]+=*"), "<private key>"),
    (re.compile(r"\bc3NoLWVkMjU1MTkg[A-Za-z0-9+/]+=*"), "<public key>"),
    (re.compile(r"\b(?:containerd|traincrew)://\S+?(?=[\"',\s]|$)"), "<container>"),
    (re.compile(r"\bsha256:[0-9a-f]{64}\b"), "<digest>"),
    (re.compile(r"\b\d{1,3}(\.\d{1,3}){3}\b"), "<ip>"),
    (re.compile(r"(?<= )\d+\.\d s$", re.MULTILINE), "<seconds>"),
    (re.compile(r"\bkube-api-access-[a-z0-9]{5}\b"), "kube-api-access-<random>"),
    # Its Job and its pod are deleted at the same time, and watched by different requests.
    (re.compile(r"(?<= failed: )(Job|pod) .+? was deleted"), "<it> was deleted"),
)


class Normaliser:
    """Normalizes the names in one recording.

    Args:
        observations: The whole recording, in order.
        nodes: Names of the cluster's nodes.
    """

    def __init__(self, observations: Iterable[Observation], nodes: Iterable[str]) -> None:
        self._words: dict[str, str] = dict.fromkeys(nodes, "<node>")
        made: dict[str, int] = {}
        observations = list(observations)
        runtime_ids = set(filter(None, map(_runtime_id, observations)))
        self._words |= dict.fromkeys(runtime_ids, _RUNTIME_ID)
        for seen in observations:
            if seen.change != "ADDED" or seen.uid in self._words or seen.kind == "Event":
                continue
            stem = _stem(seen.kind, seen.document)
            if stem is not None:
                stem = _without_ids(stem, runtime_ids)
            if stem is not None and seen.name not in self._words:
                made[stem] = made.get(stem, 0) + 1
                self._words[seen.name] = f"{stem}<{made[stem]}>"
            if seen.kind == "ControllerRevision":
                self._words[seen.name.removeprefix(stem or "")] = f"<{made[stem or '']}>"
            name = _without_ids(self._words.get(seen.name, seen.name), runtime_ids)
            self._words[seen.uid] = f"<uid of {seen.kind} {name}>"
            self._words[seen.uid[:8]] = f"<short uid of {seen.kind} {name}>"
        longest_first = sorted(map(re.escape, self._words), key=len, reverse=True)
        self._known = re.compile(rf"(?<![a-z0-9])(?:{'|'.join(longest_first)})(?![a-z0-9])")

    def text(self, text: str) -> str:
        """Return a text with everything replaced."""
        text = self._known.sub(lambda match: self._words[match[0]], text)
        for pattern, word in _PATTERNS:
            text = pattern.sub(word, text)
        return text

    def name(self, name: str) -> str:
        """Return an object's normalized name."""
        return self._known.sub(lambda match: self._words[match[0]], name)

    def lines(self, value: Any, path: str = "") -> list[str]:
        """Return plain data as one line for each leaf: `path: value`, in the order of the paths."""
        if path.endswith("podRecords") and (records := podrecords.read(value)):
            # Records share an entry if their pods were created within the same second.
            return [f"{path}.{place}: {_record(records[place])}" for place in sorted(records)]
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
                for line in self.lines(item, f"{path}[{self.name(str(_label(item, index)))}]")
            ]
        text = self.text(value) if isinstance(value, str) else repr(value)
        return [f"{path}: {text}" if "\n" not in text else f"{path}: {text!r}"]


def _runtime_id(seen: Observation) -> str | None:
    """Return the RuntimeId of an MxJob, which is random unless it was given; None without one."""
    if seen.kind not in JOB_KINDS:
        return None
    found: str | None = seen.document.get("spec", {}).get("RuntimeId")
    return found


def _without_ids(name: str, runtime_ids: Iterable[str]) -> str:
    for each in runtime_ids:
        name = name.replace(f"-{each}-", f"-{_RUNTIME_ID}-")
    return name


def _record(record: PodRecord) -> str:
    flags = {"ready": record.was_ready, "released": record.released, "failed": record.failed}
    words = [f"{record.restarts} restarts", *(word for word, is_set in flags.items() if is_set)]
    return ", ".join(words)


def _label(item: Any, index: int) -> str | int:
    """Return the label of a list item: its name or type, which does not depend on the order."""
    if isinstance(item, dict):
        for key in ("name", "type", "key"):
            if isinstance(item.get(key), str) and not _RANDOM.search(item[key]):
                return str(item[key])
    return index


def _stem(kind: str, document: Document) -> str | None:
    """Return the part of a name that is the same in every run; None if all of it is."""
    metadata = document["metadata"]
    name: str = metadata["name"]
    if kind == "ControllerRevision":
        return name.rpartition("-")[0] + "-"
    generated = metadata.get("generateName")
    if kind == "Pod" and generated and _RANDOM.search(name):
        return str(generated)
    return None
