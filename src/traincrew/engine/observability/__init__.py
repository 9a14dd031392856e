"""Logs, metrics, and the HTTP endpoints that serve metrics and health.

Everything in the engine may use these packages; they depend on nothing else in it.
"""

from traincrew.engine.observability.health import Access, HealthServer
from traincrew.engine.observability.logs import Logger, configure_logging, get_logger
from traincrew.engine.observability.metrics import Metrics

__all__ = [
    "Access",
    "HealthServer",
    "Logger",
    "Metrics",
    "configure_logging",
    "get_logger",
]
