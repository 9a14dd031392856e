"""Parsing of uv's terminal output: lines, progress of downloads, and errors."""

from __future__ import annotations

import re
import time
from collections import deque
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Screen", "advice", "failure_reason", "is_network_failure"]

_MAX_LINE = 400
_MAX_PENDING = 1 << 16
# A download whose bar is not drawn for this many seconds, while others are, has ended.
_DRAWN_SECONDS = 0.5
_RATE_SECONDS = 5.0
_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_BAR = re.compile(
    r"(\S+)(?: \([a-z]+\))? +-{3,} *([\d.]+) ?([KMGT]?i?B)/([\d.]+) ?([KMGT]?i?B)(?![\w.])"
)
_SPINNER = re.compile("[\u2580-\u259f\u2800-\u28ff]")
_PADDING = " " * 20
_BUILDING = re.compile(r"Building (\S+)")
_INSTALLING = re.compile(r"\[(\d+)/(\d+)\]")
_NETWORK = (
    r"dns error|tcp connect error|error sending request|Connection refused|Network is unreachable|"
    r"Failed to fetch|Failed to download|operation timed out|timed out|Connection reset|"
    r"error decoding response body|tunnel error|proxy|50[0234] "
)
_CERTIFICATE = r"invalid peer certificate|UnknownIssuer|CERTIFICATE_VERIFY_FAILED"

_HASH = r"Hash mismatch|mismatched hash|match any of the hashes"

_ADVICE = (
    (
        _CERTIFICATE,
        'Check the certificates that are trusted ("pip config get global.cert", SSL_CERT_FILE)',
    ),
    (r"No space left on device", "Free some disk space, or move the cache (TRAINCREW_CACHE)"),
    (
        r"40[13] (Unauthorized|Forbidden)",
        'Check the address and the credentials of the package index ("pip config list")',
    ),
    (
        (
            r"there (is|are) no versions? of|was not found in the package registry|"
            r"no wheels? with a matching"
        ),
        "Correct this requirement of the environment, or its python version",
    ),
    (
        _HASH,
        (
            "The package index has another file than the one that the catalog was written with; "
            "if you trust it, set hashes: [] in an environment of your own"
        ),
    ),
    (
        r"no trusted hash was provided",
        "Name this package and its version under requirements, and its hashes in a file of hashes",
    ),
    (
        r"No solution found when resolving",
        "Change the requirements of the environment so that they fit together",
    ),
    (
        r"No module named '(setuptools|pkg_resources|wheel|numpy)",
        "A package needs this to be built: name it under buildRequirements",
    ),
    (
        r"(gcc|cc|clang)['\"]? failed|command '(gcc|cc|clang)'|Python\.h: No such file",
        (
            "A package must be compiled: install a C compiler and Python's headers, or choose a "
            "version that has a wheel for this Python"
        ),
    ),
    (
        _NETWORK,
        (
            "The package index cannot be reached: check the network and the settings "
            '("pip config list"), or map the image to an interpreter that already has the '
            "packages (python: current)"
        ),
    ),
)


class _Download(Struct):
    done: float
    total: float
    drawn: float


class Screen:
    """A terminal that a program writes to.

    Args:
        on_line: Receives each final line, without escape sequences.
        clock: Returns the time in seconds.
    """

    def __init__(
        self, on_line: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._on_line = on_line
        self._clock = clock
        self._pending = ""
        self._downloads: dict[str, _Download] = {}
        self._samples: deque[tuple[float, float]] = deque()
        self._started = clock()
        self._drawn = ""

    def feed(self, text: str) -> None:
        """Process output."""
        self._measure(text)
        *lines, self._pending = (self._pending + text).split("\r\n")
        if len(self._pending) > _MAX_PENDING:
            # Progress overwrites itself: only the last output matters.
            self._pending = self._pending[-_MAX_PENDING:]
        for line in lines:
            self._on_line(_visible(line))

    def close(self) -> None:
        """Pass on an unfinished last line."""
        if line := _visible(self._pending).strip():
            self._on_line(line)
        self._pending = ""

    def progress(self) -> str:
        """Return the progress: bytes and rate of downloads, or another step, or nothing."""
        now = self._clock()
        running = [
            name
            for name, download in self._downloads.items()
            if download.done < download.total and now - download.drawn < _RATE_SECONDS
        ]
        if not running:
            match = _INSTALLING.search(self._drawn)
            if match and match[2] != "0":
                return f"unpacking {match[1]} of {match[2]} packages"
            if match := _BUILDING.search(self._drawn):
                return f"building {match[1].replace('==', ' ')}"
            return ""
        done = sum(self._arrived(download) for download in self._downloads.values())
        total = sum(download.total for download in self._downloads.values())
        self._samples.append((now, done))
        while len(self._samples) > 1 and now - self._samples[0][0] > _RATE_SECONDS:
            self._samples.popleft()
        began, before = self._samples[0] if len(self._samples) > 1 else (self._started, 0.0)
        rate = (done - before) / max(now - began, 0.1)
        largest = max(running, key=lambda name: self._downloads[name].total)
        others = f" and {len(running) - 1} more" if len(running) > 1 else ""
        # The figures first: a narrow terminal cuts the end.
        return f"{_bytes(done, total)}, {rate / 1e6:.1f} MB/s: downloading {largest}{others}"

    def _measure(self, text: str) -> None:
        now = self._clock()
        for name, done, unit, total, total_unit in _BAR.findall(text):
            size = float(total) * _UNITS.get(total_unit, 1)
            arrived = float(done) * _UNITS.get(unit, 1)
            self._downloads[name] = _Download(arrived, size, now)
        if last := _SEQUENCE.sub("", text).replace("\r", "\n").strip():
            self._drawn = last[-_MAX_PENDING:]

    def _arrived(self, download: _Download) -> float:
        newest = max(one.drawn for one in self._downloads.values())
        gone = newest - download.drawn > _DRAWN_SECONDS
        return download.total if gone else min(download.done, download.total)


def _visible(line: str) -> str:
    """Return the final text of a line that was overwritten."""
    text = _SEQUENCE.sub("", line.rsplit("\r", 1)[-1]).rstrip()
    # uv does not always erase its progress first; each row of it is padded to the width.
    return text.rsplit(_PADDING, 1)[-1] if _SPINNER.match(text) else text


def _bytes(done: float, total: float) -> str:
    return f"{done / 1e6:.0f} of {total / 1e6:.0f} MB"


def failure_reason(lines: Iterable[str]) -> str:
    """Return the lines that explain the failure, joined into one."""
    lines = [line.strip() for line in lines]
    start = max(
        (index for index, line in enumerate(lines) if line.startswith("error: ")), default=None
    )
    if start is None:
        chosen = lines[-2:]
    else:
        message = lines[start].removeprefix("error: ")
        causes = [line.removeprefix("cause: ") for line in lines[start:] if line[:7] == "cause: "]
        # If building a package failed, uv only wraps the package's own error.
        raised = [
            line
            for line in lines[start:]
            if re.match(r"([\w.]+\.)?\w*(Error|Exception): |ERROR: |error: command", line)
        ]
        if raised:
            causes = raised[-1:]
        chosen = [message, *dict.fromkeys([*causes[:1], *causes[-1:]])]
    return " | ".join(line[:_MAX_LINE] for line in chosen) or "it gave no reason"


def advice(lines: Iterable[str]) -> str:
    """Return advice as a sentence to append, or nothing."""
    text = "\n".join(lines)
    for pattern, sentence in _ADVICE:
        if re.search(pattern, text):
            return f". {sentence}"
    return ""


def is_network_failure(lines: Iterable[str]) -> bool:
    """Return whether a network failure was the cause, so that a retry may succeed."""
    text = "\n".join(lines)
    return bool(re.search(_NETWORK, text)) and not re.search(f"{_CERTIFICATE}|{_HASH}", text)
