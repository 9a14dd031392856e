"""Credentials from a program: ``client.authentication.k8s.io`` exec plugins.

The contract is that of client-go's ``plugin/pkg/client/auth/exec``: the program gets an
``ExecCredential`` in ``KUBERNETES_EXEC_INFO`` and prints one with a status; what it printed is
used until it expires or the server answers 401.
"""

from __future__ import annotations

import asyncio
import os
import sys
from base64 import b64encode
from datetime import datetime  # noqa: TC003 - msgspec resolves it
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct, field

from traincrew.engine.clock import SYSTEM_CLOCK, Clock
from traincrew.engine.decoding import UndecodableError, decode_json
from traincrew.engine.errors import ConfigError
from traincrew.engine.programs import OutputTooLongError, ask_program

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traincrew.engine.config.tls import TlsSettings

GROUP = "client.authentication.k8s.io"
VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta1")

Mode = Literal["Never", "IfAvailable", "Always"]
MODES: dict[str, Mode] = {"Never": "Never", "IfAvailable": "IfAvailable", "Always": "Always"}

# A program that prompts a person may take long; any other counts as stuck after a minute.
_TIMEOUT = 60.0
_INTERACTIVE_TIMEOUT = 300.0
_MAX_OUTPUT = 1 << 20
# Requests that were refused at the same time must not each start the program.
_MIN_PERIOD = 1.0


class ExecPlugin(Struct, kw_only=True):
    """The ``exec`` section of a kubeconfig user.

    Attributes:
        where: How error messages refer to the section.
        api_version: One of `VERSIONS`.
        command: A name on ``PATH``, or a path.
        arguments: Its arguments.
        environment: Variables added to this process' own.
        install_hint: Shown when the command is missing.
        interactive_mode: Whether it may, must or must not use the terminal.
        cluster: The ``spec.cluster`` it is given, with ``provideClusterInfo``.
    """

    where: str
    api_version: str
    command: str
    arguments: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    install_hint: str = ""
    interactive_mode: Mode = "IfAvailable"
    cluster: dict[str, Any] | None = None


class _Status(Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: datetime | None = None


class _Credential(Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None


class ExecCredentials:
    """Runs an exec plugin when credentials are needed.

    Args:
        plugin: What to run.
        tls: Receives the client certificates that the plugin prints.
        clock: Source of time.
    """

    def __init__(
        self, plugin: ExecPlugin, tls: TlsSettings, *, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._plugin = plugin
        self._tls = tls
        self._clock = clock
        self._lock = asyncio.Lock()
        self._status: _Status | None = None
        self._obtained_at = 0.0
        self._monotonic_expiry = 0.0

    async def authorization(self) -> str | None:
        """Return the header value; ``None`` when the plugin printed only a certificate.

        Raises:
            ConfigError: The plugin failed; the message describes the failure.
        """
        if not self._valid():
            async with self._lock:
                if not self._valid():
                    await self._obtain()
        return self._header()

    async def refresh(self, rejected: str | None) -> bool:
        """Run the plugin again, unless that was done a moment ago."""
        async with self._lock:
            recent = self._clock.monotonic() - self._obtained_at < _MIN_PERIOD
            if self._status is None or (self._header() == rejected and not recent):
                await self._obtain()
                return True
            return self._header() != rejected

    def _header(self) -> str | None:
        token = self._status.token if self._status else None
        return f"Bearer {token}" if token else None

    def _valid(self) -> bool:
        """Check both clocks: one may have been set, the other stops while the machine sleeps."""
        if self._status is None:
            return False
        expiry = self._status.expiration_timestamp
        return expiry is None or (
            self._clock.now() < expiry and self._clock.monotonic() < self._monotonic_expiry
        )

    async def _obtain(self) -> None:
        output = await self._run()
        self._status = status = self._parse(output)
        self._obtained_at = self._clock.monotonic()
        if status.expiration_timestamp is not None:
            lifetime = (status.expiration_timestamp - self._clock.now()).total_seconds()
            self._monotonic_expiry = self._obtained_at + lifetime
        if status.client_certificate_data and status.client_key_data:
            self._tls.show(status.client_certificate_data.encode(), status.client_key_data.encode())

    def _parse(self, output: bytes) -> _Status:
        plugin = self._plugin
        try:
            credential = decode_json(output, type=_Credential)
        except UndecodableError as error:
            raise self._error(f"printed no ExecCredential: {error}") from error
        if credential.kind != "ExecCredential":
            raise self._error(f"printed kind {credential.kind!r} instead of ExecCredential")
        if credential.api_version != plugin.api_version:
            raise self._error(
                f"printed apiVersion {credential.api_version!r}, "
                f"but the kubeconfig asks for {plugin.api_version!r}"
            )
        status = credential.status
        if status is None:
            raise self._error("printed an ExecCredential without status")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise self._error("printed only one of clientCertificateData and clientKeyData")
        if not status.token and not status.client_certificate_data:
            raise self._error("printed neither token nor clientCertificateData")
        expiry = status.expiration_timestamp
        if expiry is not None and expiry.tzinfo is None:
            raise self._error("printed an expirationTimestamp without time zone")
        return status

    async def _run(self) -> bytes:
        plugin = self._plugin
        terminal = sys.stdin is not None and sys.stdin.isatty()
        if plugin.interactive_mode == "Always" and not terminal:
            raise self._error("needs a terminal (interactiveMode: Always), and there is none")
        interactive = terminal and plugin.interactive_mode != "Never"
        spec: dict[str, Any] = {"interactive": interactive}
        if plugin.cluster is not None:
            spec["cluster"] = plugin.cluster
        info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
        environment = {
            **os.environ,
            **plugin.environment,
            "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode(),
        }
        limit = _INTERACTIVE_TIMEOUT if interactive else _TIMEOUT
        try:
            answer = await ask_program(
                (plugin.command, *plugin.arguments),
                seconds=limit,
                max_output=_MAX_OUTPUT,
                data=None if interactive else b"",
                quiet=False,
                environment=environment,
            )
        except TimeoutError as error:
            raise self._error(f"did not finish within {limit:g} s") from error
        except OutputTooLongError as error:
            raise self._error(f"printed more than {_MAX_OUTPUT >> 10} KiB") from error
        except OSError as error:
            hint = f"\n{plugin.install_hint}" if plugin.install_hint else ""
            raise self._error(f"cannot be started: {error.strerror}{hint}") from error
        if answer.code:
            raise self._error(f"failed with exit code {answer.code}")
        return answer.output

    def _error(self, what: str) -> ConfigError:
        return ConfigError(f"{self._plugin.where}: command {self._plugin.command!r} {what}")


def cluster_info(cluster: Mapping[str, Any], tls: TlsSettings, extension: Any) -> dict[str, Any]:
    """Return the ``spec.cluster`` of an ``ExecCredential``.

    Args:
        cluster: The cluster section of the kubeconfig.
        tls: Its TLS settings; the CA is passed on inline.
        extension: The cluster's ``client.authentication.k8s.io/exec`` extension, if any.
    """
    info: dict[str, Any] = {
        key: cluster[key]
        for key in ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url")
        if key in cluster
    }
    if tls.ca is not None:
        data = tls.ca.read_bytes() if isinstance(tls.ca, Path) else tls.ca
        info["certificate-authority-data"] = b64encode(data).decode()
    if extension is not None:
        info["config"] = extension
    return info
