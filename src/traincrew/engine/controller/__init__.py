"""Reconcile loops: `Controller` with its work queue, and the `Manager` that runs them.

Informers produce requests, a request names an object, and a reconcile function moves that object
towards its spec. A `WriteTracker` reports whether a cache already contains its last write.
"""

from traincrew.engine.controller.controller import (
    Controller,
    ExpectedError,
    Reconcile,
    Result,
    TerminalError,
)
from traincrew.engine.controller.manager import Manager
from traincrew.engine.controller.queue import FOLLOWING, WorkQueue
from traincrew.engine.controller.requests import Mapper, Request, own_key, owner_key
from traincrew.engine.controller.tracker import WriteTracker

__all__ = [
    "FOLLOWING",
    "Controller",
    "ExpectedError",
    "Manager",
    "Mapper",
    "Reconcile",
    "Request",
    "Result",
    "TerminalError",
    "WorkQueue",
    "WriteTracker",
    "own_key",
    "owner_key",
]
