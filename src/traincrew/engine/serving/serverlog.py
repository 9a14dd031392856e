"""Logs of HTTP servers: one line for a malformed request, no traceback, and rate-limited.

Anybody who can connect can send malformed requests, as fast as the network allows.
"""

from __future__ import annotations

import logging
import time

__all__ = ["LINES", "SECONDS", "server_logger", "summary"]

LINES = 10
SECONDS = 60.0
_LONGEST = 300


class _RateLimit(logging.Filter):
    """Lets `LINES` records pass in `SECONDS`; the next record reports how many were dropped."""

    def __init__(self) -> None:
        super().__init__()
        self._since = float("-inf")
        self._passed = self._dropped = 0

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        if now - self._since >= SECONDS:
            self._since, self._passed = now, 0
        if self._passed >= LINES:
            self._dropped += 1
            return False
        self._passed += 1
        _shorten(record)
        if self._dropped:
            record.msg = f"{record.getMessage()} (lines left out: {self._dropped})"
            record.args = None
            self._dropped = 0
        return True


def _shorten(record: logging.LogRecord) -> None:
    """Reduce the record of a malformed request to its message; a traceback shows our own code."""
    from aiohttp.http_exceptions import HttpProcessingError

    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, HttpProcessingError):
        # Bytes of the request are already escaped in the message.
        text = " ".join(f"{record.getMessage()}: {error}".split())
        record.msg, record.args = text[:_LONGEST], None
        record.exc_info = record.exc_text = None
        record.levelno, record.levelname = logging.WARNING, "WARNING"


def server_logger(name: str) -> logging.Logger:
    """Return the logger for an aiohttp server.

    Args:
        name: Name of the server; each has a limit of its own.
    """
    logger = logging.getLogger(f"traincrew.http.{name}")
    if not any(isinstance(each, _RateLimit) for each in logger.filters):
        logger.addFilter(_RateLimit())
    return logger


def summary(error: BaseException) -> str:
    """Describe a failure in one printable line, with the place in the code where it happened."""
    place = ""
    if (step := error.__traceback__) is not None:
        while step.tb_next is not None:
            step = step.tb_next
        place = f" ({step.tb_frame.f_code.co_filename}:{step.tb_lineno})"
    text = "".join(each if each.isprintable() else " " for each in f"{error}"[:_LONGEST])
    return f"{type(error).__name__}: {text}{place}"
