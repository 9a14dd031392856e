"""Test helpers for code built on the engine: simulated time and a scripted API server.

``simulate`` runs a coroutine on an event loop whose time jumps to the next timer as soon as nothing
else is left to do: hours of back-off take milliseconds, and the order of events is deterministic.
``FakeServer`` is an API server behind the client's transport protocol; it stores objects, serves
watches, and injects faults.
"""

from traincrew.engine.testing.server import FakeServer, SimulatedCrash
from traincrew.engine.testing.simulation import ManualClock, SimulatedClock, simulate, until

__all__ = [
    "FakeServer",
    "ManualClock",
    "SimulatedClock",
    "SimulatedCrash",
    "simulate",
    "until",
]
