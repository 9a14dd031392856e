"""Completion indexes of Indexed Jobs: their text form, and those still to run. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.controllers.pods import is_active

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from traincrew.engine.objects import AnyObject

INDEX = "batch.kubernetes.io/job-completion-index"
"""Annotation and label of a pod: its completion index."""
INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"
"""Annotation: how many earlier pods of this index failed (per-index back-off)."""
INDEX_IGNORED_FAILURES = "batch.kubernetes.io/job-index-ignored-failure-count"
"""Annotation: how many more failed but were ignored by the pod failure policy."""


def parse(text: str | None, completions: int) -> set[int]:
    """Parse `status.completedIndexes`, such as `1,3-5`; drop indexes that are out of range."""
    result: set[int] = set()
    for part in (text or "").split(","):
        first, dash, last = part.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            continue
        end = int(last) if dash else int(first)
        result.update(range(int(first), min(end, completions - 1) + 1))
    return result


def text(indexes: Iterable[int]) -> str:
    """Return the compressed form: three or more in a row are written `first-last`."""
    parts: list[str] = []
    ordered = sorted(indexes)
    start = 0
    for position in range(1, len(ordered) + 1):
        if position < len(ordered) and ordered[position] == ordered[position - 1] + 1:
            continue
        first, last = ordered[start], ordered[position - 1]
        if last - first >= 2:
            parts.append(f"{first}-{last}")
        else:
            parts += [str(index) for index in range(first, last + 1)]
        start = position
    return ",".join(parts)


def index_of(pod: AnyObject, completions: int) -> int | None:
    """Return the index of a pod; None if it has none, or none of this Job's."""
    value = pod.metadata.annotations.get(INDEX, "")
    if not value.isdigit() or int(value) >= completions:
        return None
    return int(value)


def active_indexes(pods: Iterable[AnyObject], completions: int) -> set[int]:
    """Return the indexes that have an active pod."""
    found = (index_of(pod, completions) for pod in pods if is_active(pod))
    return {index for index in found if index is not None}


def first_missing(taken: Collection[int], count: int, completions: int) -> list[int]:
    """Return the lowest `count` indexes below `completions` that are not taken."""
    result: list[int] = []
    index = 0
    while len(result) < count and index < completions:
        if index not in taken:
            result.append(index)
        index += 1
    return result


def failure_count(pod: AnyObject) -> int:
    """Return how many pods of its index had failed when this one was created."""
    value = pod.metadata.annotations.get(INDEX_FAILURES, "0")
    return int(value) if value.isdigit() else 0


def ignored_failure_count(pod: AnyObject) -> int:
    """Return how many more had failed without counting."""
    value = pod.metadata.annotations.get(INDEX_IGNORED_FAILURES, "0")
    return int(value) if value.isdigit() else 0
