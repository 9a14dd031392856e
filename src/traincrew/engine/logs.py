"""Structured logs on standard error; inside a reconcile each line says which one."""

from __future__ import annotations

import logging
import sys
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import structlog

if TYPE_CHECKING:
    from collections.abc import MutableMapping, Sequence

    from structlog.typing import FilteringBoundLogger, Processor


class ReconcileContext(NamedTuple):
    """Which reconcile is running; inherited by the tasks it starts."""

    controller: str
    namespace: str
    name: str
    reconcile_id: str


current_reconcile: ContextVar[ReconcileContext | None] = ContextVar(
    "current_reconcile", default=None
)


def add_reconcile(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> Any:
    """Processor: add controller, namespace, name and reconcileID to a log line."""
    context = current_reconcile.get()
    if context is not None:
        event.setdefault("controller", context.controller)
        event.setdefault("namespace", context.namespace)
        event.setdefault("name", context.name)
        event.setdefault("reconcileID", context.reconcile_id)
    return event


class _StandardError:
    """Follows ``sys.stderr`` wherever it is redirected later."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


def configure_logging(
    format: Literal["text", "json"] = "text",  # noqa: A002 - the word users know
    level: str = "info",
) -> None:
    """Send all logs, those of the standard library included, to standard error.

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
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        add_reconcile,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: Sequence[Processor]
    if format == "json":
        last = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        last = [
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
            )
        ]
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.PrintLoggerFactory(_StandardError()),  # type: ignore[arg-type]
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(_StandardError())
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(threshold)


def get_logger(**values: Any) -> FilteringBoundLogger:
    """A logger; programs that never call `configure_logging` get warnings as text."""
    if not structlog.is_configured():
        structlog.configure(
            processors=[
                structlog.contextvars.merge_contextvars,
                add_reconcile,
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.dev.ConsoleRenderer(
                    colors=False, exception_formatter=structlog.dev.plain_traceback
                ),
            ],
            wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
            logger_factory=structlog.PrintLoggerFactory(_StandardError()),  # type: ignore[arg-type]
        )
    logger: FilteringBoundLogger = structlog.get_logger(**values)
    return logger
