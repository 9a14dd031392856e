"""CertificateSigningRequests are signed once they are approved."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from local.certificates import condition, request, signing_request
from traincrew.engine.objects import AnyObject
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
