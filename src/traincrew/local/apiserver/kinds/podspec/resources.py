"""Rules for what containers and claims request (``pkg/apis/core/validation/validation.go``)."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from traincrew.local.apiserver.kinds.shared.meta import label_selector
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field
from traincrew.local.apiserver.values.names import qualified_name_fault, qualified_name_faults
from traincrew.local.quantity import parse

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = [
    "COMPUTE_RESOURCES",
    "HUGE_PAGES",
    "KNOWN_RESOURCES",
    "access_modes",
    "any_resource_faults",
    "claim_spec",
    "container_resources",
    "exclusive_mode",
    "resource_name_faults",
]

COMPUTE_RESOURCES = ("cpu", "memory", "ephemeral-storage")
"""Resources any container can request, besides huge pages and extended resources."""
KNOWN_RESOURCES = frozenset(
    (
        "configmaps",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
        "services.loadbalancers",
        "services.nodeports",
        "storage",
        "requests.storage",
        *(f"{kind}.{name}" for kind in ("limits", "requests") for name in COMPUTE_RESOURCES),
    )
)
"""Known resource names that no container can request: those of quotas."""


@lru_cache(maxsize=1024)
def resource_name_faults(name: str) -> tuple[str, ...]:
    """Return the errors of a container's resource name."""
    fault = qualified_name_fault(name)
    if "/" not in name:
        if name in COMPUTE_RESOURCES or name.startswith("hugepages-"):
            return ()
        known = name in KNOWN_RESOURCES or name.startswith("requests.hugepages-")
        if not fault and not known:
            fault = "must be a standard resource type or fully qualified"
        where = "must be a standard resource for containers"
        return (fault, where) if fault else (where,)
    if name.startswith("requests."):
        return (*filter(None, (fault,)), "doesn't follow extended resource name standard")
    return (fault,) if fault else ()


def container_resources(found: list[Cause], container: Document, path: str) -> None:
    """Validate the requests and limits of a container."""
    resources = container.get("resources")
    if not resources:
        return
    limits, requests = field(resources, "limits"), field(resources, "requests")
    for kind, values in (("limits", limits), ("requests", requests)):
        for name, value in values.items():
            here = f"{path}.resources.{kind}[{name}]"
            found.extend(why.invalid(here, name, fault) for fault in resource_name_faults(name))
            number = parse(value)
            if number.numerator < 0:
                detail = "must be greater than or equal to 0"
                found.append(why.invalid(here, str(value), detail))
            elif name not in COMPUTE_RESOURCES and number.denominator != 1:
                found.append(why.invalid(here, str(value), "must be an integer"))
    for name, value in requests.items():
        overcommit = "/" not in name and not name.startswith("hugepages-")
        limit = limits.get(name)
        here = f"{path}.resources.requests"
        if limit is None:
            if not overcommit:
                detail = "Limit must be set for non overcommitable resources"
                found.append(why.required(f"{path}.resources.limits", detail))
        elif value == limit:
            continue  # nearly always, and fractions take long to compare
        elif parse(value) > parse(limit):
            detail = f"must be less than or equal to {name} limit of {limit}"
            found.append(why.invalid(here, str(value), detail))
        elif not overcommit and parse(value) != parse(limit):
            detail = f"must be equal to {name} limit of {limit}"
            found.append(why.invalid(here, str(value), detail))


_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")


def access_modes(
    found: list[Cause],
    spec: Document,
    path: str,
    *,
    none: str = "at least 1 access mode is required",
) -> None:
    """Validate access modes.

    Args:
        found: Receives the faults.
        spec: Of a claim or volume.
        path: Of the spec.
        none: The detail of the fault if there are none.
    """
    modes, here = spec.get("accessModes") or [], f"{path}.accessModes"
    if not modes:
        found.append(why.required(here, none))
    found.extend(why.not_supported(here, mode, _MODES) for mode in modes if mode not in _MODES)


def exclusive_mode(found: list[Cause], spec: Document, path: str) -> None:
    """Refuse ReadWriteOncePod beside other modes."""
    modes = set(spec.get("accessModes") or ())
    if "ReadWriteOncePod" in modes and len(modes & set(_MODES)) > 1:
        detail = "may not use ReadWriteOncePod with other access modes"
        found.append(why.forbidden(f"{path}.accessModes", detail))


def claim_spec(found: list[Cause], spec: Document, path: str) -> None:
    """Validate the spec of a claim, also of a claim template of a StatefulSet."""
    access_modes(found, spec, path)
    label_selector(found, spec.get("selector"), f"{path}.selector")
    exclusive_mode(found, spec, path)
    wanted = field(spec, "resources", "requests").get("storage")
    here = f"{path}.resources[storage]"
    if wanted is None:
        found.append(why.required(here))
    elif parse(wanted) <= 0:
        found.append(why.invalid(here, str(wanted), "must be greater than zero"))
    mode = spec.get("volumeMode", "Filesystem")
    if mode not in ("Block", "Filesystem"):
        found.append(why.not_supported(f"{path}.volumeMode", mode, ("Block", "Filesystem")))


HUGE_PAGES = ("hugepages-", "requests.hugepages-")


def any_resource_faults(name: str) -> list[str]:
    """Return the errors of a resource name of any kind."""
    faults = list(qualified_name_faults(name))
    known = name in COMPUTE_RESOURCES or name in KNOWN_RESOURCES or name.startswith(HUGE_PAGES)
    if not faults and "/" not in name and not known:
        faults.append("must be a standard resource type or fully qualified")
    return faults
