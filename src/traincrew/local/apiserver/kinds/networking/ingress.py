"""Ingresses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import (
    NONE,
    age_of,
    balancer_addresses,
    name_of,
    shortened,
)
from traincrew.local.apiserver.kinds.shared.fields import port_number, port_or_name
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.names import label_fault, subdomain_fault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document


__all__ = ["STRATEGY"]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of an Ingress."""
    spec = field(obj, "spec")
    hosts = [rule["host"] for rule in items(spec, "rules") if rule.get("host")]
    return [
        name_of(obj),
        spec.get("ingressClassName") or NONE,
        shortened(hosts, "*"),
        ",".join(balancer_addresses(obj)),
        "80, 443" if spec.get("tls") else "80",
        age_of(obj, now),
    ]


def _warn(obj: Document, old: Document | None) -> Iterator[str]:
    key = "kubernetes.io/ingress.class"
    marked = key in field(obj, "metadata", "annotations")
    if old is None and marked and "ingressClassName" not in field(obj, "spec"):
        yield f"annotation \"{key}\" is deprecated, please use 'spec.ingressClassName' instead"


def _validate(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Validate an Ingress."""
    spec = field(obj, "spec")
    if not spec.get("rules") and "defaultBackend" not in spec:
        detail = "either `defaultBackend` or `rules` must be specified"
        found.append(why.invalid("spec", spec.get("rules"), detail))
    if "defaultBackend" in spec:
        _backend(found, spec["defaultBackend"], "spec.defaultBackend")
    for index, rule in enumerate(items(spec, "rules")):
        here = f"spec.rules[{index}]"
        host = rule.get("host", "")
        # After the wildcard, `*.example.com` has to be a DNS name.
        fault = subdomain_fault(host.removeprefix("*.")) if host else ""
        if fault:
            found.append(why.invalid(f"{here}.host", host, fault))
        if "http" in rule:
            _paths(found, rule["http"], f"{here}.http")


def _paths(found: list[Cause], http: Document, path: str) -> None:
    if not http.get("paths"):
        found.append(why.required(f"{path}.paths"))
    for index, item in enumerate(items(http, "paths")):
        here = f"{path}.paths[{index}]"
        kind, value = item.get("pathType"), item.get("path", "")
        if not kind:
            found.append(why.required(f"{here}.pathType", "pathType must be specified"))
            continue
        if kind not in _PATH_TYPES:
            found.append(why.not_supported(f"{here}.pathType", kind, _PATH_TYPES))
        elif not value.startswith("/") and (value or kind != "ImplementationSpecific"):
            found.append(why.invalid(f"{here}.path", value, "must be an absolute path"))
        _backend(found, item.get("backend") or {}, f"{here}.backend")


_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")


def _backend(found: list[Cause], backend: Document, path: str) -> None:
    if "resource" in backend and "service" in backend:
        detail = "cannot set both resource and service backends"
        found.append(why.invalid(path, "", detail))
    elif "service" in backend:
        name = backend["service"].get("name", "")
        fault = label_fault(name)
        if not name:
            found.append(why.required(f"{path}.service.name"))
        elif fault:
            found.append(why.invalid(f"{path}.service.name", name, fault))
        target = field(backend, "service", "port")
        if target.get("name") and target.get("number"):
            found.append(why.invalid(path, "", "cannot set both port name & port number"))
        elif target.get("name"):
            port_or_name(found, f"{path}.service.port.name", target["name"])
        elif target.get("number"):
            port_number(found, f"{path}.service.port.number", target["number"])
        else:
            found.append(why.required(path, "port name or number is required"))
    elif "resource" not in backend:
        found.append(why.invalid(path, "", "resource or service backend is required"))


STRATEGY = Strategy(
    columns="Name Class Hosts Address Ports Age",
    row=_row,
    warn=_warn,
    validate=_validate,
)
