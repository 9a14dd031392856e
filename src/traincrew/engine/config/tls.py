"""Certificates and verification for ``https`` connections."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

from traincrew.engine.clock import SYSTEM_CLOCK, Clock
from traincrew.engine.errors import ConfigError

# Certificates on disk are rotated from outside (kubelet, cert-manager); client-go checks as often.
_CHECK_PERIOD = 60.0


class TlsSettings:
    """Trusted certificates, and the client certificate to present.

    The context is built when the first connection needs it, and rebuilt when a file it was read
    from has changed.

    Args:
        ca: Certificates to trust, PEM bytes or a file; the system's when absent.
        certificate: Own certificate chain, PEM bytes or a file.
        key: Its private key, PEM bytes or a file.
        insecure: Do not verify the server at all.
        server_name: Name the server's certificate must have, if not the host of the address.
        clock: Source of time.

    Raises:
        ConfigError: The combination is invalid.
    """

    def __init__(
        self,
        *,
        ca: bytes | Path | None = None,
        certificate: bytes | Path | None = None,
        key: bytes | Path | None = None,
        insecure: bool = False,
        server_name: str | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if insecure and ca is not None:
            raise ConfigError(
                "insecure-skip-tls-verify and certificate-authority exclude each other: "
                "remove one of them"
            )
        if (certificate is None) != (key is None):
            raise ConfigError("client-certificate and client-key must be given together")
        self.server_name = server_name
        self.insecure = insecure
        self.ca = ca
        self._certificate = certificate
        self._key = key
        self._clock = clock
        self._context: ssl.SSLContext | None = None
        self._stamps: list[tuple[int, int]] = []
        self._checked_at = 0.0

    def context(self) -> ssl.SSLContext:
        """Return the context for new connections.

        Raises:
            ConfigError: A certificate or key cannot be read.
        """
        now = self._clock.monotonic()
        if self._context is not None and now - self._checked_at >= _CHECK_PERIOD:
            self._checked_at = now
            if self._file_stamps() != self._stamps:
                self._context = None
        if self._context is None:
            self._checked_at = now
            self._stamps = self._file_stamps()
            self._context = self._build()
        return self._context

    def show(self, certificate: bytes, key: bytes) -> None:
        """Present another client certificate (PEM) on new connections."""
        if (certificate, key) != (self._certificate, self._key):
            self._certificate, self._key = certificate, key
            self._context = None

    def _file_stamps(self) -> list[tuple[int, int]]:
        stamps = []
        for source in (self.ca, self._certificate, self._key):
            if isinstance(source, Path):
                try:
                    stat = source.stat()
                except OSError:
                    continue
                stamps.append((stat.st_mtime_ns, stat.st_ino))
        return stamps

    def _build(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self._ca_text())
        # Go accepts CA certificates without key identifiers, and any trusted certificate as the
        # end of a chain; some clusters rely on that.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self._certificate is not None and self._key is not None:
            with tempfile.TemporaryDirectory(prefix="traincrew-") as directory:
                # The ssl module reads keys from files only; nobody else reads here (mode 0700).
                certificate = _as_file(self._certificate, Path(directory, "certificate"))
                key = _as_file(self._key, Path(directory, "key"))
                try:
                    context.load_cert_chain(certificate, key, password=_no_password)
                except (OSError, ssl.SSLError) as error:
                    raise ConfigError(
                        f"client-certificate or client-key cannot be used: {error}"
                    ) from error
        return context

    def _ca_text(self) -> str | bytes | None:
        if self.ca is None:
            return None
        try:
            text = self.ca.read_text() if isinstance(self.ca, Path) else self.ca.decode("ascii")
            ssl.create_default_context(cadata=text)
        except (OSError, UnicodeDecodeError, ssl.SSLError) as error:
            where = f" {self.ca}" if isinstance(self.ca, Path) else "-data"
            raise ConfigError(f"certificate-authority{where} cannot be used: {error}") from error
        return text


def _as_file(source: bytes | Path, spare: Path) -> Path:
    if isinstance(source, Path):
        return source
    spare.write_bytes(source)
    return spare


def _no_password() -> str:
    raise ConfigError("client-key is encrypted; give an unencrypted key (openssl pkey -in ...)")
