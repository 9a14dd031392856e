"""The Kubernetes API of one server over HTTP: `Client` and the transport of its requests.

Plain dictionaries go in and come out; nothing here caches objects or depends on their kind.
"""

from traincrew.engine.client.bounds import MAX_OBJECTS, Pages, line_batches
from traincrew.engine.client.client import Client
from traincrew.engine.client.requester import Parameters, Requester
from traincrew.engine.client.transport import (
    AiohttpTransport,
    HttpRequest,
    HttpResponse,
    HttpStream,
    Transport,
)

__all__ = [
    "MAX_OBJECTS",
    "AiohttpTransport",
    "Client",
    "HttpRequest",
    "HttpResponse",
    "HttpStream",
    "Pages",
    "Parameters",
    "Requester",
    "Transport",
    "line_batches",
]
