"""What a server says of itself: discovery, schemas, health, metrics, and the keys of its tokens."""

from .documents import Documents
from .metrics import RequestMetrics

__all__ = ["Documents", "RequestMetrics"]
