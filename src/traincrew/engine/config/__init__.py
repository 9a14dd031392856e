"""Where the API server is and how to authenticate: kubeconfig files, pods, TLS, credentials.

`load_config` finds the configuration for `traincrew.engine.client.Client`; no requests are sent.
"""

from traincrew.engine.config.auth import Credentials, FileToken, StaticCredentials
from traincrew.engine.config.client_config import (
    SERVICE_ACCOUNT,
    ClientConfig,
    from_kubeconfig,
    in_cluster_config,
    load_config,
)
from traincrew.engine.config.tls import TlsSettings

__all__ = [
    "SERVICE_ACCOUNT",
    "ClientConfig",
    "Credentials",
    "FileToken",
    "StaticCredentials",
    "TlsSettings",
    "from_kubeconfig",
    "in_cluster_config",
    "load_config",
]
