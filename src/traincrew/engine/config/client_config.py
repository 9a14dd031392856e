"""Where the API server is and how to authenticate: kubeconfig files and in-cluster settings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from traincrew.engine.config import kubeconfig as files
from traincrew.engine.config.auth import Credentials, FileToken, StaticCredentials
from traincrew.engine.config.kubeconfig import Section
from traincrew.engine.config.proxies import environment_proxy
from traincrew.engine.config.tls import TlsSettings
from traincrew.engine.errors import ConfigError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping

__all__ = [
    "SERVICE_ACCOUNT",
    "ClientConfig",
    "ConfigError",
    "from_kubeconfig",
    "in_cluster_config",
    "load_config",
]

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

_EXEC_EXTENSION = "client.authentication.k8s.io/exec"


class ClientConfig:
    """How a `Client` reaches and authenticates to its server.

    Args:
        server: Address, with an optional path that is kept as prefix of every request.
        namespace: Used where a namespaced request names none.
        tls: Certificates and verification for ``https``.
        credentials: What goes into the ``Authorization`` header.
        proxy_url: HTTP proxy; ``None`` means the environment's, and none at all for loopback.
        context: Name of the kubeconfig context this came from.
        dial: Returns connected sockets, for a server that is not reached by its address, such as
            one in this process. No proxy is used then.

    Raises:
        ConfigError: The server address or the proxy cannot be used.
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
        dial: Callable[[], socket.socket] | None = None,
    ) -> None:
        parts = _address(server, "server")
        if parts.query or parts.fragment:
            raise ConfigError("server: the address must not have a query or fragment")
        if proxy_url is not None:
            _address(proxy_url, "proxy-url")
        self.server = server.rstrip("/")
        self.namespace = namespace
        self.tls = tls or TlsSettings()
        self.credentials = credentials
        self.proxy_url = proxy_url
        self.context = context
        self.dial = dial

    async def authorization(self) -> str | None:
        """Value of the ``Authorization`` header, if there is one.

        Raises:
            ConfigError: No credentials can be obtained.
        """
        return await self.credentials.authorization() if self.credentials else None

    async def refresh_credentials(self, rejected: str | None) -> bool:
        """Obtain new credentials after a 401; false if that is not possible.

        Args:
            rejected: The header value the server did not accept.
        """
        return await self.credentials.refresh(rejected) if self.credentials else False

    def proxy_for_server(self) -> str | None:
        """Return the proxy to use: ``proxy-url``, or the environment's, but none for loopback."""
        if self.dial is not None:
            return None
        if self.proxy_url is not None:
            return self.proxy_url
        parts = urlsplit(self.server)
        return environment_proxy(parts.scheme, parts.hostname or "")


def load_config(kubeconfig: str | None = None, context: str | None = None) -> ClientConfig:
    """Find the configuration.

    The sources, in this order: the given file; the files named by ``KUBECONFIG``; the service
    account of the pod this process runs in; ``~/.kube/config``.

    Args:
        kubeconfig: Path of a file.
        context: Name of a context; ``current-context`` by default.

    Raises:
        ConfigError: Nothing usable was found; the message names the sources that were tried.
    """
    if kubeconfig:
        path = Path(kubeconfig).expanduser()
        return _from_resolved(files.read(path), context, f"kubeconfig {path}")
    named = os.environ.get("KUBECONFIG", "")
    if named:
        paths = [Path(name).expanduser() for name in named.split(os.pathsep) if name]
        present = [path for path in paths if path.is_file()]
        if not present:
            raise ConfigError(f"KUBECONFIG={named}: no such file")
        merged = files.merge([files.read(path) for path in present])
        return _from_resolved(merged, context, f"KUBECONFIG={named}")
    if context is None and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster_config()
    path = Path.home() / ".kube" / "config"
    if not path.is_file():
        raise ConfigError(
            f"no cluster configured: KUBECONFIG is not set, there is no {path}, and this is not a "
            "pod; name a kubeconfig file, or start a local cluster with `traincrew up`"
        )
    return _from_resolved(files.read(path), context, f"kubeconfig {path}")


def from_kubeconfig(
    document: Mapping[str, Any], context: str | None = None, directory: Path = Path()
) -> ClientConfig:
    """Build a configuration from a decoded kubeconfig.

    Args:
        document: The decoded file.
        context: Name of the context; ``current-context`` by default.
        directory: Base of relative file names.

    Raises:
        ConfigError: Something is missing or wrong; the message names the field.
    """
    resolved = files.resolve(Section("kubeconfig", document), directory)
    return _from_resolved(resolved, context, "kubeconfig")


def in_cluster_config(directory: Path | None = None) -> ClientConfig:
    """Return the configuration every pod gets: service account token, CA and namespace.

    Args:
        directory: Where the service account volume is mounted; at `SERVICE_ACCOUNT` by default.

    Raises:
        ConfigError: This is not a pod, or it has no service account token.
    """
    directory = directory or SERVICE_ACCOUNT
    host = os.environ.get("KUBERNETES_SERVICE_HOST")
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise ConfigError("not in a pod: KUBERNETES_SERVICE_HOST is not set")
    token = directory / "token"
    if not token.is_file():
        raise ConfigError(
            f"there is no {token}: the pod has automountServiceAccountToken: false, "
            "or its service account volume is missing"
        )
    authority = directory / "ca.crt"
    namespace = directory / "namespace"
    return ClientConfig(
        f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        namespace=namespace.read_text().strip() if namespace.is_file() else "default",
        tls=TlsSettings(ca=authority if authority.is_file() else None),
        credentials=FileToken(token),
    )


def _from_resolved(document: Mapping[str, Any], context: str | None, origin: str) -> ClientConfig:
    name = context or document.get("current-context") or ""
    if not name:
        names = ", ".join(item["name"] for item in document.get("contexts") or []) or "none"
        raise ConfigError(f"{origin}: current-context is not set; choose one (there: {names})")
    chosen = files.entry(document, "contexts", name, origin)
    cluster = files.entry(document, "clusters", chosen.required("cluster"), origin)
    user_name = chosen.text("user")
    user = Section(origin, {})
    if user_name is not None:
        user = files.entry(document, "users", user_name, origin)
    try:
        tls = TlsSettings(
            ca=cluster.source("certificate-authority"),
            certificate=user.source("client-certificate"),
            key=user.source("client-key"),
            insecure=cluster.flag("insecure-skip-tls-verify"),
            server_name=cluster.text("tls-server-name"),
        )
        return ClientConfig(
            cluster.required("server"),
            namespace=chosen.text("namespace") or "default",
            tls=tls,
            credentials=_credentials(user, cluster, tls),
            proxy_url=cluster.text("proxy-url"),
            context=name,
        )
    except ConfigError as error:
        if str(error).startswith(("kubeconfig", origin)):
            raise
        raise ConfigError(f"{origin}, context {name}: {error}") from error


def _credentials(user: Section, cluster: Section, tls: TlsSettings) -> Credentials | None:
    """Choose the credentials of a user; static ones take precedence over exec plugins."""
    if user.section("auth-provider") is not None:
        raise ConfigError(
            f"{user.where}.auth-provider: Kubernetes removed these in 1.26; use an exec plugin, "
            "such as kubelogin for OpenID Connect, gke-gcloud-auth-plugin or `aws eks get-token`"
        )
    for key in ("as", "as-uid", "as-groups", "as-user-extra"):
        if user.values.get(key):
            raise ConfigError(f"{user.where}.{key}: impersonation is not supported; remove it")
    token, token_file = user.text("token"), user.file("tokenFile")
    username = user.text("username")
    if username is not None and (token or token_file):
        raise ConfigError(
            f"{user.where} has both a token and a username; only one is allowed, remove the other"
        )
    if token_file is not None:
        return FileToken(token_file)
    if token is not None:
        return StaticCredentials.token(token)
    if username is not None:
        return StaticCredentials.basic(username, user.text("password") or "")
    plugin = user.section("exec")
    return _exec_credentials(plugin, cluster, tls) if plugin is not None else None


def _exec_credentials(plugin: Section, cluster: Section, tls: TlsSettings) -> Credentials:
    from traincrew.engine.config.execplugin import (
        MODES,
        VERSIONS,
        ExecCredentials,
        ExecPlugin,
        cluster_info,
    )

    version = plugin.required("apiVersion")
    if version not in VERSIONS:
        raise ConfigError(f"{plugin.where}.apiVersion {version!r}: use {' or '.join(VERSIONS)}")
    mode = plugin.text("interactiveMode")
    if mode is None:
        if version == VERSIONS[0]:
            raise ConfigError(
                f"{plugin.where}.interactiveMode is required: Never, IfAvailable or Always"
            )
        mode = "IfAvailable"
    if mode not in MODES:
        raise ConfigError(
            f"{plugin.where}.interactiveMode {mode!r}: use Never, IfAvailable or Always"
        )
    environment = {}
    for number, item in enumerate(plugin.list("env")):
        variable = Section(f"{plugin.where}.env[{number}]", item)
        environment[variable.required("name")] = variable.text("value") or ""
    arguments = plugin.list("args")
    for number, argument in enumerate(arguments):
        if not isinstance(argument, str):
            raise ConfigError(f"{plugin.where}.args[{number}] must be a string; put it in quotes")
    info = None
    if plugin.flag("provideClusterInfo"):
        extension = None
        for number, item in enumerate(cluster.list("extensions")):
            named = Section(f"{cluster.where}.extensions[{number}]", item)
            if named.text("name") == _EXEC_EXTENSION:
                extension = named.values.get("extension")
        info = cluster_info(cluster.values, tls, extension)
    return ExecCredentials(
        ExecPlugin(
            where=plugin.where,
            api_version=version,
            command=plugin.required("command"),
            arguments=arguments,
            environment=environment,
            install_hint=plugin.text("installHint") or "",
            interactive_mode=MODES[mode],
            cluster=info,
        ),
        tls,
    )


def _address(url: str, field: str) -> Any:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigError(f"{field}: {url!r} must look like https://host:port (or http://)")
    try:
        parts.port  # noqa: B018 - raises if it is no number
    except ValueError as error:
        raise ConfigError(f"{field}: {error}") from error
    return parts
