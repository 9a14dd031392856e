"""The certificates of the endpoint: a CA of its own, in a Secret, and a certificate of a process.

All operators of an installation share the CA, and pods trust it for as long as they run. The
certificate that it signs is made when a process starts, and its key never leaves the process.
"""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, NamedTuple

from traincrew.engine.errors import AlreadyExistsError, NotFoundError
from traincrew.engine.resources import SECRETS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    from traincrew.engine.client import Client

_LIFETIME = timedelta(days=3650)
_BACKDATED = timedelta(days=1)
"""Clocks of nodes may differ."""
CERTIFICATE, KEY = "tls.crt", "tls.key"
"""Keys of the Secret."""


class Authority(NamedTuple):
    """A CA: certificate and private key (PEM)."""

    certificate: str
    key: str

    def context(self, hosts: Iterable[str]) -> ssl.SSLContext:
        """Return the TLS context of a server with these host names and addresses."""
        certificate, key = _server(self, list(hosts))
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        _load(context, certificate + key)
        return context


def make_authority() -> Authority:
    """Return a new CA."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding

    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key()
    name = _name(f"traincrew-progress-ca-{os.urandom(4).hex()}")
    certificate = (
        _builder(name, public)
        .issuer_name(name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Authority(certificate.public_bytes(Encoding.PEM).decode(), _private(key))


async def stored_authority(client: Client, namespace: str, name: str) -> Authority:
    """Return the CA of an installation; the first operator that needs it makes it.

    Args:
        client: The API server.
        namespace: Namespace of the Secret.
        name: Name of the Secret.

    Raises:
        ApiError: The Secret can be neither read nor created.
    """
    while True:
        try:
            found = await client.get(SECRETS, name, namespace)
        except NotFoundError:
            made = make_authority()
            secret = {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": name, "namespace": namespace},
                "type": "Opaque",
                "data": {
                    CERTIFICATE: base64.b64encode(made.certificate.encode()).decode(),
                    KEY: base64.b64encode(made.key.encode()).decode(),
                },
            }
            try:
                await client.create(SECRETS, secret)
            except AlreadyExistsError:  # another operator was faster
                continue
            return made
        data = {key: base64.b64decode(text).decode() for key, text in found["data"].items()}
        return Authority(data[CERTIFICATE], data[KEY])


def _server(authority: Authority, hosts: list[str]) -> tuple[str, str]:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
    from cryptography.x509.oid import ExtendedKeyUsageOID

    signer: Any = load_pem_private_key(authority.key.encode(), None)
    issuer = x509.load_pem_x509_certificate(authority.certificate.encode())
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key()
    usages = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    certificate = (
        _builder(_name("traincrew-progress"), public)
        .issuer_name(issuer.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(usages, critical=False)
        .add_extension(x509.SubjectAlternativeName([_general(host) for host in hosts]), False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .sign(signer, hashes.SHA256())
    )
    return certificate.public_bytes(Encoding.PEM).decode(), _private(key)


def _load(context: ssl.SSLContext, text: str) -> None:
    """Load certificate and key, which the ssl module reads from a file only."""
    if hasattr(os, "memfd_create"):  # the file system of a container may be read-only
        with os.fdopen(os.memfd_create("traincrew-tls"), "w") as file:
            file.write(text)
            file.flush()
            context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
        return
    with tempfile.NamedTemporaryFile("w") as file:  # readable for its owner only
        file.write(text)
        file.flush()
        context.load_cert_chain(file.name)


def _general(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _name(common_name: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(subject: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    from cryptography import x509

    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + _LIFETIME)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _private(key: ec.EllipticCurvePrivateKey) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
