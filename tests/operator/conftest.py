"""Fixtures of the operator's tests."""

from clusters import cluster, impatient, served

__all__ = ["cluster", "impatient", "served"]
