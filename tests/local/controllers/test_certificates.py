"""CertificateSigningRequests are signed once they are approved."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID

from local.certificates import KEY, condition, request, signing_request
from local.controlplane import control_plane
from traincrew.engine.objects import AnyObject
from traincrew.engine.resources import CONFIG_MAPS
from traincrew.local.controllers.certificates.plan import (
    CERTIFICATE_SIGNING_REQUESTS as REQUESTS,
)
from traincrew.local.controllers.certificates.plan import Failure, Signing, plan

NOW = 1_800_000_000.0
NODE_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
SERVING = "kubernetes.io/kubelet-serving"
NODE = ("system:node:n", "system:nodes")


def planned(*conditions: str, certificate: str = "", **spec: Any) -> Signing | Failure | None:
    document = signing_request(**spec)
    document["status"] = {"conditions": [condition(kind) for kind in conditions]}
    if certificate:
        document["status"]["certificate"] = certificate
    return plan(msgspec.convert(document, AnyObject), NOW)


@pytest.mark.parametrize(
    ("conditions", "more"),
    [
        ((), {}),
        (("Denied",), {}),
        (("Approved", "Failed"), {}),
        (("Approved",), {"certificate": "eA=="}),
        (("Approved",), {"signerName": "example.com/own"}),
        (("Approved",), {"signerName": "kubernetes.io/unknown"}),
    ],
)
def test_what_is_not_signed(conditions: tuple[str, ...], more: dict[str, Any]) -> None:
    assert planned(*conditions, **more) is None


@pytest.mark.parametrize(
    ("seconds", "lifetime"),
    [
        (None, timedelta(days=365, minutes=-5)),
        (600, timedelta(minutes=10)),
        (8 * 3600, timedelta(hours=8, minutes=-5)),
        (10 * 365 * 86400, timedelta(days=365, minutes=-5)),
    ],
)
def test_durations(seconds: int | None, lifetime: timedelta) -> None:
    found = planned("Approved", expirationSeconds=seconds)
    assert isinstance(found, Signing)
    moment = datetime.fromtimestamp(NOW, UTC)
    assert found.start == moment - timedelta(minutes=5)
    assert found.end == moment + lifetime


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"usages": ["server auth"]}, "invalid usage for client certificate: server auth"),
        ({"usages": ["key encipherment"]},
         "missing required usage for client certificate: client auth"),
        ({"signerName": NODE_CLIENT}, "subject organization is not system:nodes"),
        ({"signerName": NODE_CLIENT, "request": request(*NODE, dns="a")},
         "DNS subjectAltNames are not allowed"),
        ({"signerName": NODE_CLIENT, "request": request(*NODE, ip="10.0.0.1")},
         "IP subjectAltNames are not allowed"),
        ({"signerName": NODE_CLIENT, "request": request("n", "system:nodes")},
         "subject common name does not begin with system:node:"),
        ({"signerName": NODE_CLIENT, "request": request(*NODE), "usages": ["client auth"]},
         "usages did not match [client auth digital signature key encipherment]"),
        ({"signerName": SERVING, "request": request(*NODE)},
         "DNS or IP subjectAltName is required"),
        ({"signerName": SERVING, "request": request(*NODE, dns="n", email="a@b.c")},
         "Email subjectAltNames are not allowed"),
        ({"signerName": SERVING, "request": request(*NODE, dns="n")},
         "usages did not match [digital signature key encipherment server auth]"),
    ],
)  # fmt: skip
def test_what_a_signer_refuses(spec: dict[str, Any], message: str) -> None:
    assert planned("Approved", **spec) == Failure(message)


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"usages": ["client auth"]},
        {"signerName": NODE_CLIENT, "request": request(*NODE)},
        {"signerName": SERVING, "request": request(*NODE, ip="10.0.0.1"),
         "usages": ["server auth", "digital signature", "key encipherment"]},
    ],
)  # fmt: skip
def test_what_is_signed(spec: dict[str, Any]) -> None:
    assert isinstance(planned("Approved", **spec), Signing)


async def test_an_approved_request_gets_a_certificate() -> None:
    async with control_plane(kubelet=False) as world:
        created = await world.create(REQUESTS, signing_request(request=request("jane", "dev")))
        wrong = signing_request("wrong", usages=["server auth"])
        await world.create(REQUESTS, wrong)
        for name in ("jane", "wrong"):
            patch = {"status": {"conditions": [condition()]}}
            await world.client.patch(REQUESTS, name, patch=patch, subresource="approval")

        async def answered(name: str, key: str) -> Any:
            found = await world.get(REQUESTS, name)
            assert found is not None
            return found["status"].get(key)

        async def issued() -> Any:
            return await answered("jane", "certificate")

        async def failed() -> Any:
            found = await answered("wrong", "conditions")
            return found[1] if len(found) > 1 else None

        certificate = x509.load_pem_x509_certificate(
            base64.b64decode(await world.until(issued, "a certificate"))
        )
        assert certificate.subject.rfc4514_string() == "CN=jane,O=dev"
        encoding = (Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        assert certificate.public_key().public_bytes(*encoding) == KEY.public_key().public_bytes(
            *encoding
        )
        extended = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert list(extended) == [ExtendedKeyUsageOID.CLIENT_AUTH]
        usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
        assert usage.digital_signature
        assert not usage.key_cert_sign
        basic = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
        assert not basic.ca
        trusted = await world.get(CONFIG_MAPS, "extension-apiserver-authentication", "kube-system")
        assert trusted is not None
        (authority,) = x509.load_pem_x509_certificates(trusted["data"]["client-ca-file"].encode())
        certificate.verify_directly_issued_by(authority)
        reason = (await world.until(failed, "a refusal"))["message"]
        assert reason == "invalid usage for client certificate: server auth"
        assert created["spec"]["groups"]
