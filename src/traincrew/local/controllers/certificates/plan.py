"""Plan of a CertificateSigningRequest: (it, time) -> a certificate to sign, or a failure. Pure.

Rules: ``pkg/controller/certificates`` and ``pkg/apis/certificates/helpers.go`` of Kubernetes.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from traincrew.engine.resources import Resource
from traincrew.local.certificaterequests import (
    CertificateRequest,
    RequestError,
    parse_request,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.engine.objects import AnyObject

CERTIFICATE_SIGNING_REQUESTS = Resource(
    "certificates.k8s.io",
    "v1",
    "certificatesigningrequests",
    "CertificateSigningRequest",
    namespaced=False,
)

_LONGEST = timedelta(days=365)
_SHORTEST = timedelta(minutes=10)
_BACKDATED = timedelta(minutes=5)
# Certificates that are valid for less do not end earlier for having begun earlier.
_SHORT = timedelta(hours=8)


class Signing(NamedTuple):
    """A certificate to sign.

    Attributes:
        request: the certificate request.
        usages: what the certificate may be used for.
        start: since when it is valid.
        end: until when it is valid.
    """

    request: CertificateRequest
    usages: list[str]
    start: datetime
    end: datetime


class Failure(NamedTuple):
    """Why a request is not signed, although it is approved."""

    message: str


def plan(request: AnyObject, now: float) -> Signing | Failure | None:
    """Return what is to be done about a request; None if nothing is.

    Args:
        request: The CertificateSigningRequest.
        now: Seconds since the epoch.
    """
    conditions = {each.get("type") for each in request.status.get("conditions") or ()}
    fault_of = _SIGNERS.get(request.spec.get("signerName", ""))
    if (
        fault_of is None
        or "Approved" not in conditions
        or conditions & {"Denied", "Failed"}
        or request.status.get("certificate")
    ):
        return None
    usages: list[str] = request.spec.get("usages") or []
    try:
        wanted = parse_request(request.spec.get("request") or "")
    except RequestError as error:
        return Failure(str(error))
    if fault := fault_of(wanted, usages):
        return Failure(fault)
    moment = datetime.fromtimestamp(now, UTC)
    lifetime = _lifetime(request.spec.get("expirationSeconds"))
    end = moment + lifetime - (timedelta() if lifetime < _SHORT else _BACKDATED)
    return Signing(wanted, usages, moment - _BACKDATED, end)


def failed(status: dict[str, Any], failure: Failure, now: float) -> dict[str, Any]:
    """Return the status of a request that cannot be signed."""
    condition = {
        "type": "Failed",
        "status": "True",
        "reason": "SignerValidationFailure",
        "message": failure.message,
        "lastUpdateTime": datetime.fromtimestamp(int(now), UTC).isoformat()[:19] + "Z",
    }
    return {**status, "conditions": [*(status.get("conditions") or ()), condition]}


def _lifetime(seconds: int | None) -> timedelta:
    if seconds is None:
        return _LONGEST
    return min(max(timedelta(seconds=seconds), _SHORTEST), _LONGEST)


def _client_fault(_request: CertificateRequest, usages: list[str]) -> str:
    for usage in usages:
        if usage not in {"digital signature", "key encipherment", "client auth"}:
            return f"invalid usage for client certificate: {usage}"
    if "client auth" not in usages:
        return "missing required usage for client certificate: client auth"
    return ""


def _usages_fault(usages: list[str], last: str) -> str:
    every = {"digital signature", "key encipherment", last}
    if set(usages) in (every, every - {"key encipherment"}):
        return ""
    return f"usages did not match [{' '.join(sorted(every))}]"


def _node_client_fault(request: CertificateRequest, usages: list[str]) -> str:
    if request.organizations != ["system:nodes"]:
        return "subject organization is not system:nodes"
    for names, kind in (
        (request.dns_names, "DNS"),
        (request.emails, "Email"),
        (request.addresses, "IP"),
        (request.uris, "URI"),
    ):
        if names:
            return f"{kind} subjectAltNames are not allowed"
    if not request.common_name.startswith("system:node:"):
        return "subject common name does not begin with system:node:"
    return _usages_fault(usages, "client auth")


def _node_serving_fault(request: CertificateRequest, usages: list[str]) -> str:
    if request.organizations != ["system:nodes"]:
        return "subject organization is not system:nodes"
    if not request.dns_names and not request.addresses:
        return "DNS or IP subjectAltName is required"
    for names, kind in ((request.emails, "Email"), (request.uris, "URI")):
        if names:
            return f"{kind} subjectAltNames are not allowed"
    if fault := _usages_fault(usages, "server auth"):
        return fault
    if not request.common_name.startswith("system:node:"):
        return "subject common name does not begin with system:node:"
    return ""


_SIGNERS: dict[str, Callable[[CertificateRequest, list[str]], str]] = {
    "kubernetes.io/kube-apiserver-client": _client_fault,
    "kubernetes.io/kube-apiserver-client-kubelet": _node_client_fault,
    "kubernetes.io/kubelet-serving": _node_serving_fault,
}
"""The signers, and what each refuses: the words, or an empty text."""
