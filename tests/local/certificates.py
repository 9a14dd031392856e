"""Certificate requests, as programs send them."""

from __future__ import annotations

import base64
from ipaddress import ip_address
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

KEY = ec.generate_private_key(ec.SECP256R1())
CLIENT = "kubernetes.io/kube-apiserver-client"


def request(
    name: str = "jane", *organizations: str, dns: str = "", ip: str = "", email: str = ""
) -> str:
    """Return a certificate request as in ``spec.request``: base64 of PEM."""
    subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
    subject.append(x509.NameAttribute(NameOID.COMMON_NAME, name))
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
    names: list[x509.GeneralName] = []
    if dns:
        names.append(x509.DNSName(dns))
    if ip:
        names.append(x509.IPAddress(ip_address(ip)))
    if email:
        names.append(x509.RFC822Name(email))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return base64.b64encode(builder.sign(KEY, hashes.SHA256()).public_bytes(Encoding.PEM)).decode()


def signing_request(name: str = "jane", **spec: Any) -> dict[str, Any]:
    """Return a CertificateSigningRequest of a client."""
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "request": request(),
            "signerName": CLIENT,
            "usages": ["client auth", "digital signature"],
            **spec,
        },
    }


def condition(kind: str = "Approved", **more: Any) -> dict[str, Any]:
    """Return a condition, as ``kubectl certificate approve`` adds it."""
    return {"type": kind, "status": "True", "reason": "KubectlApprove", "message": "fine", **more}
