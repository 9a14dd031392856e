"""Reads the certificate requests in CertificateSigningRequests (PKCS #10), and signs them."""

from __future__ import annotations

import base64
import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime

__all__ = [
    "CertificateRequest",
    "RequestError",
    "Signer",
    "certificate_fault",
    "parse_request",
]

_MAX_BYTES = 64 * 1024
"""Bytes of a request or a chain, in PEM; those of programs have a few thousand."""

_REQUEST = "CERTIFICATE REQUEST"
_USAGES = {
    "signing": "digital_signature",
    "digital signature": "digital_signature",
    "content commitment": "content_commitment",
    "key encipherment": "key_encipherment",
    "key agreement": "key_agreement",
    "data encipherment": "data_encipherment",
    "cert sign": "key_cert_sign",
    "crl sign": "crl_sign",
    "encipher only": "encipher_only",
    "decipher only": "decipher_only",
}
_EXTENDED = {"server auth": "SERVER_AUTH", "client auth": "CLIENT_AUTH"}


class RequestError(ValueError):
    """It is not a certificate request; the message says why, in upstream's words."""


class CertificateRequest(NamedTuple):
    """What a certificate request asks for.

    Attributes:
        common_name: of the subject: a user name, for certificates of clients.
        organizations: of the subject, in the order of the request: groups, for those of clients.
        dns_names: alternative names of the subject.
        addresses: likewise, IP addresses.
        emails: likewise.
        uris: likewise.
        parsed: the request itself.
    """

    common_name: str
    organizations: list[str]
    dns_names: list[str]
    addresses: list[str]
    emails: list[str]
    uris: list[str]
    parsed: Any


def _pem(text: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise RequestError(f"illegal base64 data: {error}") from None
    if len(data) > _MAX_BYTES:
        raise RequestError(f"it has more than {_MAX_BYTES} bytes")
    return data


def parse_request(text: str) -> CertificateRequest:
    """Read a certificate request, and verify its signature.

    Args:
        text: base64 of PEM, as in ``spec.request``.

    Raises:
        RequestError: it is none, or its signature is not that of its key.
    """
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.x509.oid import NameOID

    data = _pem(text)
    _, found, rest = data.partition(b"-----BEGIN ")
    if not found or not rest.startswith(_REQUEST.encode() + b"-----"):
        raise RequestError(f"PEM block type must be {_REQUEST}")
    try:
        parsed = x509.load_pem_x509_csr(found + rest)
        valid = parsed.is_signature_valid
        names = _alternative_names(parsed)
        subject = parsed.subject
        common = [str(each.value) for each in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        groups = [
            str(each.value) for each in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
        ]
    except (
        ValueError,
        TypeError,
        InvalidSignature,
        UnsupportedAlgorithm,
        x509.DuplicateExtension,
        x509.InvalidVersion,
        x509.UnsupportedGeneralNameType,
    ) as error:
        raise RequestError(f"it cannot be read: {error}") from None
    if not valid:
        raise RequestError("x509: signature is not that of the key in the request")
    return CertificateRequest(common[-1] if common else "", groups, *names, parsed)


def _alternative_names(parsed: Any) -> tuple[list[str], list[str], list[str], list[str]]:
    from cryptography import x509

    try:
        extension = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return [], [], [], []
    names = extension.value
    return (
        list(names.get_values_for_type(x509.DNSName)),
        [str(each) for each in names.get_values_for_type(x509.IPAddress)],
        list(names.get_values_for_type(x509.RFC822Name)),
        list(names.get_values_for_type(x509.UniformResourceIdentifier)),
    )


def certificate_fault(text: str) -> str:
    """Return what is wrong with a chain of certificates (base64 of PEM), or an empty string."""
    from cryptography import x509

    try:
        data = _pem(text)
    except RequestError as error:
        return str(error)
    for block in data.split(b"-----BEGIN ")[1:]:
        kind = block.partition(b"-----")[0].decode("ascii", "replace")
        if kind != "CERTIFICATE":
            return f'only CERTIFICATE PEM blocks are allowed, found "{kind}"'
    if b"-----BEGIN " not in data:
        return "must contain at least one CERTIFICATE PEM block"
    try:
        x509.load_pem_x509_certificates(data)
    except (ValueError, x509.InvalidVersion) as error:
        return str(error)
    return ""


class Signer(NamedTuple):
    """A CA that signs certificate requests.

    Attributes:
        certificate: its certificate (PEM).
        key: its key (PEM, PKCS #8, not encrypted).
    """

    certificate: str
    key: str

    def sign(
        self, request: CertificateRequest, usages: list[str], start: datetime, end: datetime
    ) -> str:
        """Return a certificate (PEM) for the subject, the names and the key of a request.

        Args:
            request: other extensions that it asks for are not in the certificate.
            usages: as in ``spec.usages``; those that no signer here allows have no effect.
            start: since when it is valid.
            end: until when it is valid.

        Raises:
            TypeError: no certificate can have the request's key.
            ValueError: certificate and key of the CA cannot be read.
        """
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

        authority = x509.load_pem_x509_certificate(self.certificate.encode())
        key: Any = load_pem_private_key(self.key.encode(), None)
        parsed = request.parsed
        builder = (
            x509.CertificateBuilder()
            .subject_name(parsed.subject)
            .public_key(parsed.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(start)
            .not_valid_after(min(end, authority.not_valid_after_utc))
            .issuer_name(authority.subject)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(usages), critical=True)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()),
                critical=False,
            )
        )
        extended = [
            getattr(x509.oid.ExtendedKeyUsageOID, _EXTENDED[usage])
            for usage in usages
            if usage in _EXTENDED
        ]
        if extended:
            builder = builder.add_extension(x509.ExtendedKeyUsage(extended), critical=False)
        with contextlib.suppress(x509.ExtensionNotFound):
            names = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName)
            builder = builder.add_extension(names.value, critical=False)
        signed = builder.sign(key, hashes.SHA256())
        return signed.public_bytes(Encoding.PEM).decode()


def _usage(usages: list[str]) -> Any:
    from cryptography import x509

    wanted = {_USAGES[usage] for usage in usages if usage in _USAGES}
    return x509.KeyUsage(**{name: name in wanted for name in set(_USAGES.values())})
