"""The certificates of a cluster: its own CA, and the API server's certificate.

Clients get the CA certificate from the cluster's kubeconfig, pods from their service account. The
CA's key signs the server's certificate and is then discarded, so nobody can ever sign another one.
A process that takes the server's port cannot impersonate it without the server's key, which only
the cluster's owner can read.

There is another CA for certificates of clients, once one is needed. Its key is kept beside the
token of the administrator, who may do anything anyway.
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

__all__ = [
    "SERVER_NAMES",
    "Certificate",
    "ClientAuthority",
    "accept_clients",
    "make_certificate",
    "stored_certificate",
]

SERVER_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
"""DNS names in the API server's certificate, as upstream."""

_CLIENT_AUTHORITY = "client-ca.crt"
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

    def context(self, client_authority: Path | None = None) -> ssl.SSLContext:
        """Return the TLS context for a server to listen with.

        Args:
            client_authority: The CAs of client certificates (PEM). Clients may have one; the
                handshake fails if none of these CAs has signed it.

        Raises:
            OSError: The files cannot be read or are invalid.
        """
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.path, self.key)
        context.set_alpn_protocols(["http/1.1"])
        if client_authority is not None:
            accept_clients(context, client_authority)
        return context


def accept_clients(context: ssl.SSLContext, authority: Path) -> None:
    """Accept the client certificates of further CAs; connections that are open stay as they are.

    Args:
        context: Of the server.
        authority: The CAs (PEM).

    Raises:
        OSError: The file cannot be read or is invalid.
    """
    context.load_verify_locations(authority)
    context.verify_mode = ssl.CERT_OPTIONAL
    # As Go verifies: whatever is in the file is trusted, a client's certificate included, and only
    # newer versions of Python insist on RFC 5280 in every detail.
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VerifyFlags.VERIFY_X509_STRICT


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
    # The helpers import what they need: most starts find a certificate, and the import is a tenth
    # of the start-up time.
    authority_key, key = _new_key(), _new_key()
    authority = _authority(authority_key)
    certificate = _server(authority_key, authority, key.public_key(), addresses)
    files = _files(directory)
    # The certificate is written last: an interrupted start leaves no complete set of files.
    files.path.unlink(missing_ok=True)
    _write(files.key, _private(key))
    _write(files.authority_path, _pem(authority))
    _write(files.path, _pem(certificate))
    return files


class ClientAuthority:
    """A CA for certificates of clients, in files of a directory; made if there is none.

    Args:
        directory: An existing directory that only this user can read.

    Raises:
        OSError: The directory cannot be read or written.
        ValueError: The stored key is none.

    Attributes:
        path: The CA's certificate (PEM).
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / _CLIENT_AUTHORITY
        self._key_path = directory / "client-ca.key"
        if not (self.path.is_file() and self._key_path.is_file()):
            key = _new_key()
            # The certificate is written last: without it, both are made again.
            _write(self._key_path, _private(key))
            _write(self.path, _pem(_authority(key, "traincrew-client-ca")))

    @staticmethod
    def stored(directory: Path) -> Path | None:
        """Return the file of the CA's certificate in a directory; None if none has been made."""
        path = directory / _CLIENT_AUTHORITY
        return path if path.is_file() else None

    def pair(self) -> tuple[str, str]:
        """Return the CA's certificate and its key (PEM)."""
        return self.path.read_text(), self._key_path.read_text()

    def issue(self, user: str, groups: Iterable[str] = ()) -> tuple[str, str]:
        """Return a certificate and its key (PEM) of a user: common name and organizations.

        Raises:
            ValueError: A name is empty, or longer than the 64 characters of X.509.
        """
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
        from cryptography.x509.oid import ExtendedKeyUsageOID

        for each in (user, *(groups := tuple(groups))):
            if not 0 < len(each) <= 64:
                raise ValueError(f"the name of a user or group has 1 to 64 characters: {each!r}")
        authority_key: Any = load_pem_private_key(self._key_path.read_bytes(), None)
        authority = x509.load_pem_x509_certificate(self.path.read_bytes())
        key = _new_key()
        certificate = (
            _builder(_name(user, groups), key.public_key())
            .issuer_name(authority.subject)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(sign_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
            .sign(authority_key, hashes.SHA256())
        )
        return _pem(certificate).decode(), _private(key).decode()


def _new_key() -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _private(key: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    content: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return content


def _pem(certificate: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    content: bytes = certificate.public_bytes(Encoding.PEM)
    return content


def _name(common_name: str, organizations: Iterable[str] = ()) -> Any:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


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


def _authority(key: Any, prefix: str = "traincrew-ca") -> Any:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    public = key.public_key()
    # Distinct names: clients use them to distinguish the CAs of several clusters in one bundle.
    name = _name(f"{prefix}-{os.urandom(4).hex()}")
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
