"""How far the pull of an image is: rows for a terminal, lines for a file. Pure."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from traincrew.cli.display.rows import Row
from traincrew.cli.display.text import byte_size

if TYPE_CHECKING:
    from traincrew.local.images.oci.registry import Progress, Transfer

__all__ = ["Bars", "lines"]

_RATE_SECONDS = 5.0
_PERCENT = len("100%")


class Bars:
    """The rows of one pull: the whole image, then the layers that move.

    Args:
        name: Of the image, as the user wrote it.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._samples: deque[tuple[float, int]] = deque()

    def rows(self, progress: Progress, now: float) -> tuple[Row, ...]:
        """Return the rows.

        Args:
            progress: As it was reported last.
            now: Seconds.
        """
        whole = self._whole(progress, now)
        moving = (layer for layer in progress.layers if layer.phase in {"fetching", "unpacking"})
        return (whole, *map(_layer, moving))

    def _whole(self, progress: Progress, now: float) -> Row:
        done, total = progress.fetched, progress.total
        self._samples.append((now, done))
        while len(self._samples) > 1 and now - self._samples[0][0] > _RATE_SECONDS:
            self._samples.popleft()
        began, before = self._samples[0]
        rate = int((done - before) / max(now - began, 0.1))
        words = [_percent(done, total), self._name, f"{byte_size(done)} of {byte_size(total)}"]
        if rate > 0 and done < total:
            words.append(f"{byte_size(rate)}/s")
        words.append(f"{progress.finished} of {len(progress.layers)} layers")
        return Row(words=tuple(words), done=_fraction(done, total))


def _layer(layer: Transfer) -> Row:
    words = (
        _percent(layer.done, layer.total),
        _short(layer.digest),
        layer.phase,
        byte_size(layer.total),
    )
    return Row(words=words, done=_fraction(layer.done, layer.total))


def lines(progress: Progress) -> list[str]:
    """Return what a report adds to a file: the size at first, then each layer that is ready."""
    count = len(progress.layers)
    if progress.changed is None:
        plural = "" if count == 1 else "s"
        return [f"{count} layer{plural}, {byte_size(progress.total)}"]
    if progress.changed.phase != "done":
        return []
    layer = progress.changed
    size = byte_size(layer.total)
    return [f"layer {_short(layer.digest)} is ready ({size}), {progress.finished} of {count}"]


def _short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:12]


def _fraction(done: int, total: int) -> float:
    return 1.0 if total <= 0 else min(done / total, 1.0)


def _percent(done: int, total: int) -> str:
    # As wide at 3% as at 100%.
    return f"{int(_fraction(done, total) * 100)}%".rjust(_PERCENT)
