"""What Kubernetes publishes of its kinds: the files in ``data``."""

from __future__ import annotations

import lzma
import pkgutil

__all__ = ["unpacked"]


def unpacked(name: str) -> bytes:
    """Return the JSON in a file of the data folder; reading takes milliseconds."""
    packed = pkgutil.get_data(__name__, f"data/{name}.json.xz")
    assert packed is not None
    return lzma.decompress(packed)
