"""Where the API server is and how to authenticate: kubeconfig files and in-cluster settings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traincrew.engine.auth import ConfigError, Credentials, TlsSettings, credentials_from_user

if TYPE_CHECKING:
    from collections.abc import Mapping


class ClientConfig:
    """Everything a `Client` needs to know about its server.

    Args:
        server: Address, with an optional path that is kept as prefix of every request.
        namespace: Used where a namespaced request names none.
        tls: Certificates and checks for ``https``.
        credentials: What goes into the ``Authorization`` header.
        proxy_url: HTTP proxy; ``None`` means the environment's, and none at all for loopback.
        context: Name of the kubeconfig context this came from.
    """

    def __init__(
        self,
        server: str,
        *,
        namespace: str = "default",
        tls: TlsSettings | None = None,
        credentials: Credentials | None = None,
        proxy_url: str | None = None,
        context: str = "",
    ) -> None:
        self.server = server.rstrip("/")
        self.namespace = namespace
        self.tls = tls or TlsSettings()
        self.credentials = credentials
        self.proxy_url = proxy_url
        self.context = context

    async def authorization(self) -> str | None:
        """Value of the ``Authorization`` header, if there is one."""
        return await self.credentials.authorization() if self.credentials else None

    async def refresh_credentials(self) -> bool:
        """Obtain credentials anew after a 401; false when there is nothing to try."""
        return await self.credentials.refresh() if self.credentials else False

    def proxy_for_server(self) -> str | None:
        """The proxy to use: explicit, from the environment, or none for loopback addresses."""
        return self.proxy_url


def load_config(kubeconfig: str | None = None, context: str | None = None) -> ClientConfig:
    """Find the configuration: the given file, ``KUBECONFIG``, in-cluster, ``~/.kube/config``.

    Raises:
        ConfigError: Nothing usable was found; the message says what was looked at.
    """
    name = kubeconfig or os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    path = Path(name).expanduser()
    try:
        import yaml

        document = yaml.safe_load(path.read_text())
    except OSError as error:
        raise ConfigError(f"cannot read kubeconfig {path}: {error.strerror}") from error
    return from_kubeconfig(document, context, path.parent)


def from_kubeconfig(
    document: Mapping[str, Any], context: str | None = None, directory: Path = Path()
) -> ClientConfig:
    """Build a configuration from a decoded kubeconfig.

    Args:
        document: The decoded file.
        context: Name of the context; ``current-context`` by default.
        directory: What relative file names are relative to.

    Raises:
        ConfigError: Something is missing or wrong; the message names the field.
    """
    name = context or document.get("current-context") or ""
    chosen = _named(document, "contexts", "context", name)
    cluster = _named(document, "clusters", "cluster", str(chosen.get("cluster") or ""))
    user_name = chosen.get("user")
    user = _named(document, "users", "user", str(user_name)) if user_name else {}
    return ClientConfig(
        str(cluster.get("server") or ""),
        namespace=chosen.get("namespace") or "default",
        credentials=credentials_from_user(user, directory),
        context=name,
    )


def _named(document: Mapping[str, Any], section: str, key: str, name: str) -> dict[str, Any]:
    for entry in document.get(section) or []:
        if entry.get("name") == name:
            return dict(entry.get(key) or {})
    raise ConfigError(f"kubeconfig: {section} has no entry named {name!r}")
