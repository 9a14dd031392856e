"""Fixtures of the embedded cluster's tests."""

from local.apiserver.support import api

__all__ = ["api"]
