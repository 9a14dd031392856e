"""The certificates of a cluster: its own CA, and the API server's certificate.

Clients get the CA certificate from the cluster's kubeconfig, pods from their service account. The
CA's key signs the server's certificate and is then discarded, so nobody can ever sign another one.
A process that takes the server's port cannot impersonate it without the server's key, which only
the cluster's owner can read.
"""

from __future__ import annotations

import os
import ssl
import time
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["SERVER_NAMES", "Certificate", "make_certificate", "stored_certificate"]

SERVER_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
"""DNS names in the API server's certificate, as upstream."""

_LIFETIME = timedelta(days=3650)
_RENEWED_AFTER = timedelta(days=3285)
# The clocks of virtual machines and containers may jump.
_BACKDATED = timedelta(days=1)


class Certificate(NamedTuple):
    """Files of the server's certificate, its key, and the CA that signed it.

    Attributes:
        path: The certificate (PEM).
        key: Its key (PEM, mode 0600).
        authority_path: The CA certificate (PEM).
    """

    path: Path
    key: Path
    authority_path: Path

    @property
    def authority(self) -> str:
        """The certificate that clients have to trust (PEM)."""
        return self.authority_path.read_text()

    def context(self) -> ssl.SSLContext:
        """Return the TLS context for a server to listen with.

        Raises:
            OSError: The files cannot be read or are invalid.
        """
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.path, self.key)
        context.set_alpn_protocols(["http/1.1"])
        return context


def stored_certificate(directory: Path) -> Certificate | None:
    """Return the certificate that `make_certificate` stored in a directory.

    Returns:
        None if there is none, or if it is due for renewal.
    """
    found = _files(directory)
    if not all(path.is_file() for path in found):
        return None
    age = time.time() - found.path.stat().st_mtime
    return found if age < _RENEWED_AFTER.total_seconds() else None


def _files(directory: Path) -> Certificate:
    return Certificate(
        directory / "apiserver.crt", directory / "apiserver.key", directory / "ca.crt"
    )


def make_certificate(directory: Path, addresses: Iterable[IPv4Address] = ()) -> Certificate:
    """Create a new CA and a new certificate for 127.0.0.1, replacing older ones.

    Args:
        directory: An existing directory of the cluster alone.
        addresses: Further addresses of the server.

    Raises:
        OSError: The directory cannot be written.
    """
    # Imported here: most starts find a certificate, and the import is a tenth of the start-up time.
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = _authority(authority_key)
    certificate = _server(authority_key, authority, key.public_key(), addresses)
    files = _files(directory)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    # The certificate is written last: an interrupted start leaves no complete set of files.
    files.path.unlink(missing_ok=True)
    _write(files.key, private)
    _write(files.authority_path, authority.public_bytes(Encoding.PEM))
    _write(files.path, certificate.public_bytes(Encoding.PEM))
    return files


def _name(common_name: str) -> Any:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(subject: Any, public_key: Any) -> Any:
    from cryptography import x509

    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + _LIFETIME)
    )


def _authority(key: Any) -> Any:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    public = key.public_key()
    # Distinct names: clients use them to distinguish the CAs of several clusters in one bundle.
    name = _name(f"traincrew-ca-{os.urandom(4).hex()}")
    return (
        _builder(name, public)
        .issuer_name(name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(sign_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .sign(key, hashes.SHA256())
    )


def _server(
    authority_key: Any, authority: Any, public_key: Any, addresses: Iterable[IPv4Address]
) -> Any:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID

    names: list[x509.GeneralName] = [x509.DNSName(name) for name in SERVER_NAMES]
    names += [
        x509.IPAddress(address) for address in dict.fromkeys([IPv4Address("127.0.0.1"), *addresses])
    ]
    identifier = x509.SubjectKeyIdentifier.from_public_key(public_key)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    usages = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    return (
        _builder(_name("kube-apiserver"), public_key)
        .issuer_name(authority.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(sign_certificates=False), critical=True)
        .add_extension(usages, critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(identifier, critical=False)
        .add_extension(issuer, critical=False)
        .sign(authority_key, hashes.SHA256())
    )


def _usage(*, sign_certificates: bool) -> Any:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=sign_certificates,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _write(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
        file.write(content)
    temporary.replace(path)
