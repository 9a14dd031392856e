"""IngressClasses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import NONE, age_of, name_with_default
from traincrew.local.apiserver.kinds.shared.fields import immutable
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field
from traincrew.local.apiserver.values.names import subdomain_fault

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]

_MAX_CONTROLLER = 250


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of an IngressClass."""
    spec = field(obj, "spec")
    parameters = field(spec, "parameters")
    shown = NONE
    if parameters:
        group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") else ""
        shown = f"{parameters.get('kind')}{group}/{parameters.get('name')}"
    annotation = "ingressclass.kubernetes.io/is-default-class"
    name = name_with_default(obj, annotation)
    return [name, spec.get("controller", ""), shown, age_of(obj, now)]


_FORM = 'must be a domain-prefixed path (such as "acme.io/foo")'


def _validate(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate an IngressClass."""
    controller = field(obj, "spec").get("controller", "")
    here = "spec.controller"
    if len(controller) > _MAX_CONTROLLER:
        found.append(why.too_long(here, _MAX_CONTROLLER))
    host, slash, path = controller.partition("/")
    if not controller:
        found.append(why.required(here))
    elif not slash or not host or not path:
        found.append(why.invalid(here, controller, _FORM))
    elif fault := subdomain_fault(host):
        found.append(why.invalid(here, host, fault))
    if old is not None:
        immutable(found, here, controller, field(old, "spec").get("controller", ""))


STRATEGY = Strategy(
    columns="Name Controller Parameters Age",
    row=_row,
    validate=_validate,
)
