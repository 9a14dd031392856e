"""Structured logs on standard error; inside a reconcile each line names the request.

structlog is loaded by the first line that is written: it imports most of its submodules, and a
one-shot run that logs nothing should not wait for that.
"""

from __future__ import annotations

import io
import logging
import sys
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from structlog.typing import Processor


class ReconcileContext(Struct, frozen=True, gc=False):
    """Which reconcile is running; inherited by the tasks it starts.

    Attributes:
        controller: Name of the controller.
        namespace: Namespace of the request.
        name: Name of the request.
        number: Random, distinguishes this reconcile from all others.
    """

    controller: str
    namespace: str
    name: str
    number: int

    @property
    def reconcile_id(self) -> str:
        """The number as it appears in logs."""
        return f"{self.number:016x}"


current_reconcile: ContextVar[ReconcileContext | None] = ContextVar(
    "current_reconcile", default=None
)


def add_reconcile(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> Any:
    """Add controller, namespace, name and reconcileID to a log line; a structlog processor."""
    context = current_reconcile.get()
    if context is not None:
        event.setdefault("controller", context.controller)
        event.setdefault("namespace", context.namespace)
        event.setdefault("name", context.name)
        event.setdefault("reconcileID", context.reconcile_id)
    return event


class _Settings(NamedTuple):
    format: Literal["text", "json"]
    threshold: int


class _State:
    """The requested settings, and those that structlog was configured with."""

    settings = _Settings("text", logging.WARNING)
    applied: _Settings | None = None


class _StandardError:
    """Follows ``sys.stderr`` wherever it is redirected later."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


class Logger:
    """Writes structured lines: an event and named values.

    Args:
        values: Shown on every line.
    """

    __slots__ = ("_values",)

    def __init__(self, **values: Any) -> None:
        self._values = values

    def bind(self, **values: Any) -> Logger:
        """Return a logger with further values on every line."""
        return Logger(**self._values | values)

    def debug(self, event: str, **values: Any) -> None:
        """Log details for developers."""
        self._write(logging.DEBUG, event, values)

    def info(self, event: str, **values: Any) -> None:
        """Log something that happened as expected."""
        self._write(logging.INFO, event, values)

    def warning(self, event: str, **values: Any) -> None:
        """Log something unexpected that does not stop the work."""
        self._write(logging.WARNING, event, values)

    def error(self, event: str, **values: Any) -> None:
        """Log a failure; ``exc_info`` adds a traceback."""
        self._write(logging.ERROR, event, values)

    def exception(self, event: str, **values: Any) -> None:
        """Log a failure with the traceback of the exception being handled."""
        self._write(logging.ERROR, event, {"exc_info": True, **values})

    def _write(self, level: int, event: str, values: dict[str, Any]) -> None:
        if level >= _State.settings.threshold:
            _load().bind(**self._values).log(level, event, **values)


class _Handler(logging.Handler):
    """Renders the records of the standard library's loggers like all other lines."""

    def emit(self, record: logging.LogRecord) -> None:
        _load()
        import structlog

        shared, last = _processors(_State.settings)
        formatter = structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
        try:
            sys.stderr.write(formatter.format(record) + "\n")
        except Exception:  # noqa: BLE001 - logging must not break what it watches
            self.handleError(record)


def configure_logging(
    format: Literal["text", "json"] = "text",  # noqa: A002 - the word users know
    level: str = "info",
) -> None:
    """Send all logs, those of the standard library included, to standard error.

    Programs that never call this get warnings as text, and the standard library's logs as they
    configured them.

    Args:
        format: ``text`` for people (coloured on a terminal), ``json`` for collectors.
        level: ``debug``, ``info``, ``warning``, ``error`` or ``critical``.

    Raises:
        ValueError: Unknown format or level.
    """
    levels = {"debug", "info", "warning", "error", "critical"}
    if level.lower() not in levels:
        raise ValueError(f"log level {level!r}: choose one of {', '.join(sorted(levels))}")
    if format not in {"text", "json"}:
        raise ValueError(f"log format {format!r}: choose text or json")
    threshold = logging.getLevelNamesMapping()[level.upper()]
    _State.settings = _Settings(format, threshold)
    root = logging.getLogger()
    root.handlers[:] = [_Handler()]
    root.setLevel(threshold)


def get_logger(**values: Any) -> Logger:
    """Return a logger with these values on every line."""
    return Logger(**values)


def _processors(settings: _Settings) -> tuple[list[Processor], list[Processor]]:
    """Return the processors of every line, and those that render it as text."""
    import structlog

    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        add_reconcile,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if settings.format == "json":
        return shared, [
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ]

    def traceback(output: Any, error: Any) -> None:
        lines = io.StringIO()
        structlog.dev.plain_traceback(lines, error)
        output.write(_escaped(lines.getvalue()))

    renderer = structlog.dev.ConsoleRenderer(
        colors=sys.stderr.isatty(), exception_formatter=traceback
    )
    return shared, [escape, renderer]


def escape(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> Any:
    """Escape what would control a terminal in the texts of a line; a structlog processor."""
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = _escaped(value)
    return event


def _escaped(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in "\n\t" else each.encode("unicode_escape").decode()
        for each in text
    )


def _load() -> Any:
    """Return the structlog logger, configured with the requested settings."""
    import structlog

    if _State.applied != _State.settings or not structlog.is_configured():
        shared, last = _processors(_State.settings)
        structlog.configure(
            processors=[*shared, *last],
            wrapper_class=structlog.make_filtering_bound_logger(_State.settings.threshold),
            logger_factory=structlog.PrintLoggerFactory(_StandardError()),  # type: ignore[arg-type]
            cache_logger_on_first_use=False,
        )
        _State.applied = _State.settings
    return structlog.get_logger()
