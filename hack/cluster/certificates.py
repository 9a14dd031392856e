"""The certificates of one cluster: the CA's, the API server's, and one for each client.

The names in the subjects are those of Kubernetes' authorizer
(https://kubernetes.io/docs/reference/access-authn-authz/rbac/#core-component-roles).
"""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

LIFETIME = dt.timedelta(days=30)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as files in PEM."""

    certificate: Path
    key: Path


class Authority:
    """The CA of one cluster; writes the certificates it issues into one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("traincrew-cluster-ca")
        certificate = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_usage(sign=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = directory / "ca.crt"
        self.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def server(self, name: str, addresses: Iterable[str], hosts: Iterable[str] = ()) -> Pair:
        """Issue a certificate for a server with these IP addresses and DNS names."""
        alternatives: list[x509.GeneralName] = [
            x509.IPAddress(ipaddress.ip_address(address)) for address in addresses
        ]
        alternatives += [x509.DNSName(host) for host in hosts]
        return self._sign(name, _name(name), x509.SubjectAlternativeName(alternatives), server=True)

    def client(self, name: str, user: str, group: str = "") -> Pair:
        """Issue a client certificate for a user in a group."""
        return self._sign(name, _name(user, group), None, server=False)

    def _sign(
        self,
        file: str,
        subject: x509.Name,
        alternatives: x509.SubjectAlternativeName | None,
        *,
        server: bool,
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = (
            _builder(subject, self._name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(sign=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        )
        if alternatives is not None:
            builder = builder.add_extension(alternatives, critical=False)
        pair = Pair(self.directory / f"{file}.crt", self.directory / f"{file}.key")
        signed = builder.sign(self._key, hashes.SHA256())
        pair.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        _write_key(pair.key, key)
        return pair


def service_account_key(directory: Path) -> Pair:
    """Create the key pair to sign and verify service account tokens."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pair = Pair(directory / "service-account.pub", directory / "service-account.key")
    pair.certificate.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    _write_key(pair.key, key)
    return pair


def write_kubeconfig(path: Path, url: str, authority: Path, pair: Pair) -> Path:
    """Write a self-contained kubeconfig, which can be copied elsewhere."""
    cluster = {"server": url, "certificate-authority-data": _data(authority)}
    user = {
        "client-certificate-data": _data(pair.certificate),
        "client-key-data": _data(pair.key),
    }
    name = "traincrew-cluster"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": path.stem, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": path.stem}}],
        "current-context": name,
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(document, indent=1))
    return path


def _data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def _name(user: str, group: str = "") -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, user)]
    if group:
        attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
    return x509.Name(attributes)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + LIFETIME)
    )


def _usage(*, sign: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=sign,
        crl_sign=sign,
        content_commitment=False,
        key_encipherment=not sign,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
