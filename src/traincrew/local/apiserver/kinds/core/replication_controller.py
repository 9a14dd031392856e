"""ReplicationControllers; no controller runs them here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.kinds.podspec.pod import pod_template
from traincrew.local.apiserver.kinds.podspec.templates import default_replicas, warn_of_replicas
from traincrew.local.apiserver.kinds.shared.cells import TEMPLATE_COLUMNS, replica_row
from traincrew.local.apiserver.kinds.shared.fields import non_negative
from traincrew.local.apiserver.kinds.shared.meta import MISMATCH, labels, template_labels
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field
from traincrew.local.apiserver.values.selectors import FieldLabels

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _default(obj: Document) -> None:
    default_replicas(obj)
    spec = field(obj, "spec")
    labels = field(spec, "template", "metadata").get("labels")
    if type(labels) is dict and labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        metadata = obj.get("metadata")
        if type(metadata) is dict and not metadata.get("labels"):
            metadata["labels"] = dict(labels)


def _validate(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Validate a ReplicationController."""
    spec = field(obj, "spec")
    non_negative(found, "spec.replicas", spec.get("replicas"))
    selector = field(spec, "selector")
    if not selector:
        found.append(why.required("spec.selector"))
    labels(found, selector, "spec.selector")
    if "template" not in spec:
        found.append(why.required("spec.template"))
        return
    if any(template_labels(spec).get(key) != value for key, value in selector.items()):
        here = "spec.template.metadata.labels"
        found.append(why.invalid(here, field(spec, "template", "metadata").get("labels"), MISMATCH))
    pod_template(found, spec["template"], "spec.template")


STRATEGY = Strategy(
    selectable=FieldLabels.of("status.replicas", absent={"status.replicas": "0"}),
    columns=f"Name Desired:integer Current:integer Ready:integer Age {TEMPLATE_COLUMNS}",
    row=replica_row,
    warn=warn_of_replicas,
    default=_default,
    validate=_validate,
)
