"""Fixtures of the program's tests."""

from cli.programs import environment, machine, started

__all__ = ["environment", "machine", "started"]
