"""What strangers may take of the port of `etcd`."""

from __future__ import annotations

from traincrew.engine.serving.limits import Limits

__all__ = ["LIMITS"]

LIMITS = Limits("etcd", connections=64, share=1 / 16)
"""All clients are strangers: it tells them nothing but the name of a directory."""
