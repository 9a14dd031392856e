"""Run distributed training jobs from their Kubernetes manifest, with or without a cluster.

The names below are the public interface for Python programs (docs/guides/python.md). They are
imported when they are first used, so that `import traincrew` costs nothing.
"""

from __future__ import annotations

# Type checkers know it by its name. `typing` would make Ctrl-C at the start of the program wait for
# longer until it is silent (traincrew.cli.starting).
TYPE_CHECKING = False

if TYPE_CHECKING:
    from traincrew.sdk import (
        ApiError,
        ApiServer,
        BadInput,
        ClusterClient,
        CommandFailed,
        JobOutcome,
        LocalCluster,
        NotFoundError,
        Outcome,
        PodOutcome,
        run,
    )

__all__ = [
    "ApiError",
    "ApiServer",
    "BadInput",
    "ClusterClient",
    "CommandFailed",
    "JobOutcome",
    "LocalCluster",
    "NotFoundError",
    "Outcome",
    "PodOutcome",
    "run",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'traincrew' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("traincrew.sdk"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
