"""Fixtures of the tests of migration; they play the operator."""

from clusters import cluster

__all__ = ["cluster"]
