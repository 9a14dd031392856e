"""Clients of an API server in the same process, as those of an embedded cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.engine.config import from_kubeconfig

if TYPE_CHECKING:
    from traincrew.engine.config import ClientConfig
    from traincrew.local.apiserver.http.server import ApiServer


def config_of(server: ApiServer) -> ClientConfig:
    """Return the configuration of a client that needs no TCP.

    Controllers and an operator have some ninety watches, each with a connection; over TCP they cost
    a fifth more.
    """
    config = from_kubeconfig(server.kubeconfig())
    config.dial = server.connect
    return config
