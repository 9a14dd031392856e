"""Local caches of collections, kept up to date by list and watch.

An `Informer` combines a `Reflector`, which lists and watches, with the indexed `Store` that it
fills with typed, frozen views. Nothing here writes to the API.
"""

from traincrew.engine.cache.informer import Informer
from traincrew.engine.cache.reflector import Reflector
from traincrew.engine.cache.store import OWNER_INDEX, Indexer, Key, Store
from traincrew.engine.cache.views import ViewDecoder

__all__ = ["OWNER_INDEX", "Indexer", "Informer", "Key", "Reflector", "Store", "ViewDecoder"]
