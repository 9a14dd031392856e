"""Rules for metadata, labels and selectors (``k8s.io/apimachinery/pkg/api/validation``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.names import (
    label_value_fault,
    qualified_name_fault,
    qualified_name_faults,
)
from traincrew.local.apiserver.values.selectors import from_label_selector

from .fields import immutable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = [
    "MISMATCH",
    "NameFault",
    "annotation_rules",
    "label_selector",
    "labels",
    "object_meta",
    "object_meta_update",
    "operator_values",
    "path_segment_fault",
    "selects",
    "standard_finalizers",
    "template_labels",
    "well_formed",
]

NameFault = Callable[[str], str]

MISMATCH = "`selector` does not match template `labels`"
_ANNOTATIONS_LIMIT = 256 * 1024
_FINALIZERS = ("orphan", "foregroundDeletion")


def path_segment_fault(value: str) -> str:
    """Check a name that only has to be a valid path segment: those of RBAC objects."""
    if value in (".", ".."):
        return f"may not be '{value}'"
    for part in ("/", "%"):
        if part in value:
            return f"may not contain '{part}'"
    return ""


def object_meta(found: list[Cause], metadata: Document, name_fault: NameFault) -> None:
    """Validate the metadata of any object."""
    prefix = metadata.get("generateName")
    if prefix:
        # The generated suffix starts with a letter or digit.
        fault = name_fault(prefix[:-1] + "a" if prefix.endswith("-") else prefix)
        if fault:
            found.append(why.invalid("metadata.generateName", prefix, fault))
    name = metadata.get("name")
    if not name:
        found.append(why.required("metadata.name", "name or generateName is required"))
    else:
        fault = name_fault(name)
        if fault:
            found.append(why.invalid("metadata.name", name, fault))
    _common(found, metadata)


def _common(found: list[Cause], metadata: Document) -> None:
    if "labels" in metadata:
        labels(found, metadata["labels"], "metadata.labels")
    if "annotations" in metadata:
        annotation_rules(found, metadata["annotations"], "metadata.annotations")
    if "ownerReferences" in metadata:
        _owners(found, metadata["ownerReferences"])
    finalizers = metadata.get("finalizers") or ()
    for finalizer in finalizers:
        fault = qualified_name_fault(finalizer)
        if fault:
            found.append(why.invalid("metadata.finalizers", finalizer, fault))
    if all(each in finalizers for each in _FINALIZERS):
        detail = "finalizer orphan and foregroundDeletion cannot be both set"
        found.append(why.invalid("metadata.finalizers", finalizers, detail))


def standard_finalizers(found: list[Cause], metadata: Document) -> None:
    """Refuse finalizers of a built-in kind that are neither Kubernetes' own nor have a domain."""
    for index, finalizer in enumerate(metadata.get("finalizers") or ()):
        if "/" not in finalizer and finalizer not in ("kubernetes", *_FINALIZERS):
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            found.append(why.invalid(f"metadata.finalizers[{index}]", finalizer, detail))


_EMPTY = "must not be empty"
_OWNER_FIELDS = {"apiVersion": "version must not be empty", "kind": _EMPTY} | dict.fromkeys(
    ("name", "uid"), _EMPTY
)


def _owners(found: list[Cause], references: list[Document]) -> None:
    path = "metadata.ownerReferences"
    controller, repeated = "", False
    for reference in references:
        found.extend(
            why.invalid(f"{path}.{key}", "", detail)
            for key, detail in _OWNER_FIELDS.items()
            if not reference.get(key)
        )
        if (reference.get("apiVersion"), reference.get("kind")) == ("v1", "Event"):
            detail = "/v1, Kind=Event is disallowed from being an owner"
            found.append(why.invalid(path, reference, detail))
        if reference.get("controller"):
            name = f"{reference.get('kind')}/{reference.get('name')}"
            if controller and not repeated:
                repeated = True
                detail = (
                    "Only one reference can have Controller set to true. "
                    f'Found "true" in references for {controller} and {name}'
                )
                found.append(why.invalid(path, references, detail))
            controller = controller or name


def object_meta_update(found: list[Cause], new: Document, old: Document) -> None:
    """Validate an update of metadata."""
    for key in ("name", "namespace", "uid", "creationTimestamp"):
        immutable(found, f"metadata.{key}", new.get(key), old.get(key))
    if old.get("deletionTimestamp") is not None:
        known = set(old.get("finalizers") or ())
        added = [each for each in new.get("finalizers") or () if each not in known]
        if added:
            listed = ", ".join(map(why.show, added))
            detail = (
                "no new finalizers can be added if the object is being deleted, found new"
                f" finalizers []string{{{listed}}}"
            )
            found.append(why.forbidden("metadata.finalizers", detail))


def labels(found: list[Cause], values: Document, path: str) -> None:
    """Validate labels, and maps with the same rules."""
    for key, value in values.items():
        fault = qualified_name_fault(key)
        if fault:
            found.append(why.invalid(path, key, fault))
        fault = label_value_fault(value)
        if fault:
            found.append(why.invalid(path, value, fault))


def annotation_rules(found: list[Cause], values: Document, path: str) -> None:
    """Validate annotations."""
    size = 0
    for key, value in values.items():
        fault = qualified_name_fault(key.lower())
        if fault:
            found.append(why.invalid(path, key, fault))
        size += len(key) + len(value)
    if size > _ANNOTATIONS_LIMIT:
        found.append(why.too_long(path, _ANNOTATIONS_LIMIT))


def operator_values(found: list[Cause], operator: str, values: Sequence[str], path: str) -> bool:
    """Validate that the expression of a selector has values if its operator takes any.

    Args:
        found: extended in place.
        operator: of the expression.
        values: of the expression.
        path: of the expression.

    Returns:
        Whether the operator is one of those that all selectors have.
    """
    if operator in ("In", "NotIn"):
        if not values:
            detail = "must be specified when `operator` is 'In' or 'NotIn'"
            found.append(why.required(f"{path}.values", detail))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            found.append(why.forbidden(f"{path}.values", detail))
    else:
        return False
    return True


def label_selector(found: list[Cause], selector: Document | None, path: str) -> None:
    """Validate a ``metav1.LabelSelector``."""
    if selector is None:
        return
    labels(found, field(selector, "matchLabels"), f"{path}.matchLabels")
    for index, expression in enumerate(items(selector, "matchExpressions")):
        here = f"{path}.matchExpressions[{index}]"
        operator, values = expression.get("operator", ""), expression.get("values") or []
        if not operator_values(found, operator, values, here):
            found.append(why.invalid(f"{here}.operator", operator, "not a valid selector operator"))
        key = expression.get("key", "")
        found.extend(why.invalid(f"{here}.key", key, fault) for fault in qualified_name_faults(key))
        for position, value in enumerate(values):
            fault = label_value_fault(value)
            if fault:
                found.append(why.invalid(f"{here}.values[{position}]", value, fault))


def well_formed(selector: Document) -> bool:
    """Return whether a ``metav1.LabelSelector`` is valid."""
    found: list[Cause] = []
    label_selector(found, selector, "")
    return not found


def selects(selector: Document, template_labels: Document) -> bool:
    """Return whether a selector matches labels; an invalid one does (it has causes of its own)."""
    return not well_formed(selector) or from_label_selector(selector)(template_labels)


def template_labels(spec: Document) -> Document:
    """Return the labels of the pod template in the spec of a workload."""
    return field(spec, "template", "metadata", "labels")
