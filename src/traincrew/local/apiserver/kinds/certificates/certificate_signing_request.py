"""CertificateSigningRequests.

Rules: ``pkg/apis/certificates/validation`` and ``pkg/registry/certificates`` of Kubernetes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import NONE, age_of, name_of
from traincrew.local.apiserver.kinds.shared.meta import path_segment_fault
from traincrew.local.apiserver.kinds.strategy import Part, Strategy, WriteContext
from traincrew.local.apiserver.requests.objectmeta import timestamp
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.codec import clone
from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.durations import human
from traincrew.local.apiserver.values.errors import forbidden, invalid
from traincrew.local.apiserver.values.names import label_fault, subdomain_fault
from traincrew.local.apiserver.values.selectors import FieldLabels
from traincrew.local.certificaterequests import (
    RequestError,
    certificate_fault,
    parse_request,
)

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]

_GROUP, _PLURAL = "certificates.k8s.io", "certificatesigningrequests"
_CLIENT = "kubernetes.io/kube-apiserver-client"
_LEGACY = "kubernetes.io/legacy-unknown"
_MIN_SECONDS = 600
_MAX_DOMAIN, _MAX_SIGNER = 253, 571
_USAGES = (
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
)
_DECISIONS = ("Approved", "Denied")
_FINAL = (*_DECISIONS, "Failed")


def _conditions(obj: Document) -> list[Document]:
    return list(items(obj, "status", "conditions"))


def _of_type(conditions: list[Document], kind: str) -> list[Document]:
    return [each for each in conditions if each.get("type") == kind]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a CertificateSigningRequest."""
    spec, conditions = field(obj, "spec"), _conditions(obj)
    state = "Pending"
    for kind in _DECISIONS:
        if _of_type(conditions, kind):
            state = kind
    if _of_type(conditions, "Failed"):
        state += ",Failed"
    if field(obj, "status").get("certificate"):
        state += ",Issued"
    seconds = spec.get("expirationSeconds")
    return [
        name_of(obj),
        age_of(obj, now),
        spec.get("signerName") or NONE,
        spec.get("username", ""),
        NONE if seconds is None else human(seconds),
        state,
    ]


def _validate(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate a CertificateSigningRequest; its spec never changes."""
    if old is None:
        _spec(found, field(obj, "spec"))
    _check_conditions(found, _conditions(obj), _conditions(old or {}))
    certificate = field(obj, "status").get("certificate")
    if certificate and certificate != field(old, "status").get("certificate"):
        fault = certificate_fault(certificate)
        if fault:
            shown = "<certificate data>"
            found.append(why.invalid("status.certificate", shown, fault))


def _spec(found: list[Cause], spec: Document) -> None:
    request = spec.get("request") or ""
    try:
        parse_request(request)
    except RequestError as error:
        found.append(why.invalid("spec.request", request or None, str(error)))
    usages = spec.get("usages") or []
    if not usages:
        found.append(why.required("spec.usages"))
    seen: set[str] = set()
    for index, usage in enumerate(usages):
        here = f"spec.usages[{index}]"
        if usage not in _USAGES:
            found.append(why.not_supported(here, usage, _USAGES))
        if usage in seen:
            found.append(why.duplicate(here, usage))
        seen.add(usage)
    _signer(found, spec.get("signerName", ""))
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < _MIN_SECONDS:
        detail = "may not specify a duration less than 600 seconds (10 minutes)"
        found.append(why.invalid("spec.expirationSeconds", seconds, detail))


def _signer(found: list[Cause], name: str) -> None:
    """Validate the name of a signer (``ValidateSignerName``)."""
    here = "spec.signerName"
    if name == _LEGACY:
        detail = "the legacy signerName is not allowed via this API version"
        found.append(why.invalid(here, name, detail))
        return
    if not name:
        found.append(why.required(here))
        return
    domain, slash, path = name.partition("/")
    if not slash or "/" in path:
        detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        found.append(why.invalid(here, name, detail))
        return
    if len(domain) > _MAX_DOMAIN:
        found.append(why.too_long(here, _MAX_DOMAIN))
    for text, rule in ((domain, label_fault), (path, subdomain_fault)):
        for label in text.split("."):
            if fault := rule(label):
                detail = f"validating label {why.quote(label)}: {fault}"
                found.append(why.invalid(here, text, detail))
                break
        if text is domain and "." not in domain:
            detail = "should be a domain with at least two segments separated by dots"
            found.append(why.invalid(here, domain, detail))
    if len(name) > _MAX_SIGNER:
        found.append(why.too_long(here, _MAX_SIGNER))


def _check_conditions(
    found: list[Cause], conditions: list[Document], before: list[Document]
) -> None:
    if conditions == before:
        return
    path = "status.conditions"
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        here, kind = f"{path}[{index}]", condition.get("type", "")
        if not kind:
            found.append(why.required(f"{here}.type"))
        allowed = ("True",) if kind in _FINAL else ("False", "True", "Unknown")
        status = condition.get("status", "")
        if not status:
            found.append(why.required(f"{here}.status"))
        elif status not in allowed:
            found.append(why.not_supported(f"{here}.status", status, allowed))
        if kind in _DECISIONS and (seen & set(_DECISIONS)) - {kind}:
            detail = "Approved and Denied conditions are mutually exclusive"
            found.append(why.invalid(path, kind, detail))
        if kind in seen:
            found.append(why.duplicate(f"{here}.type", kind))
        seen.add(kind)


def _prepare_for_user(new: Document, user: Document) -> None:
    spec = new["spec"]
    for key in ("username", "uid", "groups", "extra"):
        if user.get(key):
            spec[key] = clone(user[key])
        else:
            spec.pop(key, None)


def _prepare_create(_context: WriteContext, new: Document) -> None:
    """Refuse requests for administrators (admission plugin ``CertificateSubjectRestriction``)."""
    spec = field(new, "spec")
    if spec.get("signerName") != _CLIENT:
        return
    try:
        organizations = parse_request(spec.get("request") or "").organizations
    except RequestError:
        return  # the validation reports it
    if "system:masters" in organizations:
        detail = f"use of {_CLIENT} signer with system:masters group is not allowed"
        raise forbidden(_PLURAL, _GROUP, new["metadata"]["name"], detail)


def _prepare_update(
    _context: WriteContext, new: Document, old: Document, _sent: frozenset[str]
) -> None:
    new["spec"] = clone(old["spec"])


def _approval(context: WriteContext, new: Document, old: Document) -> Document:
    """Return the request with new conditions; nobody may take back a decision."""
    conditions = clone(_conditions(new))
    _add_times(context, conditions, old)
    _refuse_changes(new, old, added=_DECISIONS)
    return _with_status(new, old, {**field(old, "status"), "conditions": conditions})


def _status(context: WriteContext, new: Document, old: Document) -> Document:
    """Return the request with a new status; whether it is approved is for ``approval`` to say."""
    status = clone(field(new, "status"))
    conditions = status.get("conditions") or []
    for kind in _DECISIONS:
        kept = _of_type(_conditions(old), kind)
        places = [index for index, each in enumerate(conditions) if each.get("type") == kind]
        if len(kept) == len(places):
            for index, condition in zip(places, kept, strict=True):
                conditions[index] = clone(condition)
    _add_times(context, conditions, old)
    _refuse_changes(new, old, added=())
    before = field(old, "status").get("certificate")
    if before and status.get("certificate") != before:
        detail = "updates may not modify existing certificate content"
        _refuse(new, why.forbidden("status.certificate", detail))
    return _with_status(new, old, status)


def _with_status(new: Document, old: Document, status: Document) -> Document:
    result: Document = clone(old)
    result["metadata"] = new["metadata"]
    if not status.get("conditions"):
        status.pop("conditions", None)
    result["status"] = status
    return result


def _add_times(context: WriteContext, conditions: list[Document], old: Document) -> None:
    """Add the missing times of conditions, in place."""
    now = timestamp(context.clock())
    before = {(each.get("type"), each.get("status")): each for each in _conditions(old)}
    for condition in conditions:
        if not condition.get("lastUpdateTime"):
            condition["lastUpdateTime"] = now
        if not condition.get("lastTransitionTime"):
            same = before.get((condition.get("type"), condition.get("status")), {})
            condition["lastTransitionTime"] = same.get("lastTransitionTime") or now


def _refuse_changes(new: Document, old: Document, *, added: tuple[str, ...]) -> None:
    """Refuse to remove a final condition, or to add one that this subresource does not write."""
    wanted, before = _conditions(new), _conditions(old)
    for kind in _FINAL:
        count = len(_of_type(wanted, kind)) - len(_of_type(before, kind))
        detail = ""
        if count < 0:
            detail = f'updates may not remove a condition of type "{kind}"'
        elif count > 0 and kind in _DECISIONS and kind not in added:
            detail = f'updates may not add a condition of type "{kind}"'
        if detail:
            _refuse(new, why.forbidden("status.conditions", detail))


def _refuse(new: Document, cause: Cause) -> None:
    raise invalid(_GROUP, "CertificateSigningRequest", new["metadata"]["name"], [cause])


STRATEGY = Strategy(
    selectable=FieldLabels.of("spec.signerName"),
    columns="Name Age SignerName Requestor RequestedDuration Condition",
    row=_row,
    name_fault=path_segment_fault,
    validate=_validate,
    prepare_for_user=_prepare_for_user,
    prepare_create=_prepare_create,
    prepare_update=_prepare_update,
    parts={"approval": Part(_approval), "status": Part(_status)},
)
