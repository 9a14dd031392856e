"""Rules for CustomResourceDefinitions (apiextensions' ``validation.go``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.fields import immutable
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.causes import Cause
from traincrew.local.apiserver.values.codec import mentions
from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.jsonpath import JsonPathError, compile_path
from traincrew.local.apiserver.values.names import label_1035_fault, subdomain_fault

from .conversion import conversion_rules
from .structural import check

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["definition"]

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")


def definition(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate a CustomResourceDefinition, including the CEL rules of its schemas."""
    spec = field(obj, "spec")
    names = field(spec, "names")
    group, plural = spec.get("group", ""), names.get("plural", "")
    name = obj["metadata"].get("name", "")
    if name != f"{plural}.{group}":
        detail = 'must be spec.names.plural+"."+spec.group'
        found.append(why.invalid("metadata.name", name, detail))
    if group:
        fault = subdomain_fault(group)
        if fault:
            found.append(why.invalid("spec.group", group, fault))
        elif "." not in group:
            detail = "should be a domain with at least one dot"
            found.append(why.invalid("spec.group", group, detail))
    if group.endswith((".k8s.io", ".kubernetes.io")) or group in ("k8s.io", "kubernetes.io"):
        _approval(found, obj)
    scope = spec.get("scope", "")
    if scope and scope not in ("Cluster", "Namespaced"):
        found.append(why.not_supported("spec.scope", scope, ("Cluster", "Namespaced")))
    if spec.get("preserveUnknownFields"):
        detail = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in"
            " spec.versions[*].schema instead"
        )
        found.append(why.invalid("spec.preserveUnknownFields", True, detail))
    _names(found, names, "spec.names")
    _versions(found, spec, field(old or {}, "spec"))
    conversion_rules(found, field(spec, "conversion"), field(old or {}, "spec", "conversion"))
    stored = field(obj, "status").get("storedVersions")
    if old is not None and stored is not None:
        _stored_versions(found, spec, stored)
    if old is not None:
        before = field(old, "spec")
        conditions = {
            item.get("type"): item.get("status") for item in items(old, "status", "conditions")
        }
        if conditions.get("Established") == "True":
            immutable(found, "spec.scope", scope, before.get("scope"))
            kind = field(before, "names").get("kind")
            immutable(found, "spec.names.kind", names.get("kind"), kind)
        immutable(found, "spec.group", group, before.get("group"))
        immutable(found, "spec.names.plural", plural, field(before, "names").get("plural"))


def _approval(found: list[Cause], obj: Document) -> None:
    key = "api-approved.kubernetes.io"
    value = field(obj, "metadata", "annotations").get(key, "")
    if not value.startswith(("http://", "https://", "unapproved")):
        detail = (
            "protected groups must have approval annotation"
            ' "api-approved.kubernetes.io", see'
            " https://github.com/kubernetes/enhancements/pull/1111"
        )
        found.append(why.required(f"metadata.annotations[{key}]", detail))


def _names(found: list[Cause], names: Document, path: str) -> None:
    for key in ("plural", "singular"):
        value = names.get(key)
        fault = label_1035_fault(value) if value else ""
        if fault:
            found.append(why.invalid(f"{path}.{key}", value, fault))
    for key in ("kind", "listKind"):
        value = names.get(key)
        fault = label_1035_fault(value.lower()) if value else ""
        if fault:
            detail = f"may have mixed case, but should otherwise match: {fault}"
            found.append(why.invalid(f"{path}.{key}", value, detail))
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        detail = "kind and listKind may not be the same"
        found.append(why.invalid(f"{path}.listKind", names["listKind"], detail))
    for key in ("shortNames", "categories"):
        for index, value in enumerate(names.get(key) or ()):
            fault = label_1035_fault(value)
            if fault:
                found.append(why.invalid(f"{path}.{key}[{index}]", value, fault))


def _versions(found: list[Cause], spec: Document, before: Document) -> None:
    versions = list(items(spec, "versions"))
    known = {version.get("name"): version for version in items(before, "versions")}
    here = "spec.versions"
    names = [version.get("name", "") for version in versions]
    if len(set(names)) != len(names):
        found.append(why.invalid(here, names, "must contain unique version names"))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        detail = "must have exactly one version marked as storage version"
        found.append(why.invalid(here, names, detail))
    for index, version in enumerate(versions):
        stored = known.get(version.get("name"), {})
        _version(found, version, f"{here}[{index}]", field(stored, "schema"))


def _version(found: list[Cause], version: Document, path: str, stored: Document) -> None:
    name = version.get("name", "")
    fault = label_1035_fault(name) if name else ""
    if fault:
        found.append(why.invalid(f"{path}.name", name, fault))
    if version.get("deprecationWarning") and not version.get("deprecated"):
        detail = "can only be set for deprecated versions"
        warning = version["deprecationWarning"]
        found.append(why.invalid(f"{path}.deprecationWarning", warning, detail))
    subresources = field(version, "subresources")
    schema = field(version, "schema").get("openAPIV3Schema")
    here = f"{path}.schema.openAPIV3Schema"
    if type(schema) is not dict:
        found.append(why.required(here))
    else:
        faults = check(schema, here, status_subresource="status" in subresources)
        if not faults and mentions(schema, "x-kubernetes-validations"):
            from traincrew.local.apiserver.cel import compile_rules

            rules = compile_rules(schema)
            # Rules that are stored already are kept, whatever they cost.
            costly = rules.costly if schema != stored.get("openAPIV3Schema") else ()
            # Upstream compiles no rules of a schema whose defaults are invalid.
            faults = [
                Cause(fault.reason, fault.message, here + fault.field)
                for fault in (rules.default_faults() or (*rules.faults, *costly))
            ]
        found.extend(faults)
    if "scale" in subresources:
        _scale(found, field(subresources, "scale"), f"{path}.subresources.scale")
    for index, column in enumerate(items(version, "additionalPrinterColumns")):
        _column(found, column, f"{path}.additionalPrinterColumns[{index}]")
    _selectable(found, version, schema, path)


def _simple_path(found: list[Cause], value: str, path: str) -> bool:
    if not value.startswith("."):
        detail = "must be a simple json path starting with ."
        found.append(why.invalid(path, value, detail))
        return False
    try:
        compile_path(value)
    except JsonPathError as error:
        found.append(why.invalid(path, value, str(error)))
        return False
    return True


def _scale(found: list[Cause], scale: Document, path: str) -> None:
    for key, roots in (
        ("specReplicasPath", (".spec.",)),
        ("statusReplicasPath", (".status.",)),
        ("labelSelectorPath", (".spec.", ".status.")),
    ):
        value = scale.get(key)
        if not value:
            continue  # the schema checks required fields
        if _simple_path(found, value, f"{path}.{key}") and not value.startswith(roots):
            places = " or ".join(root.rstrip(".") for root in roots)
            either = "either " if len(roots) > 1 else ""
            detail = f"should be a json path under {either}{places}"
            found.append(why.invalid(f"{path}.{key}", value, detail))


def _column(found: list[Cause], column: Document, path: str) -> None:
    kind, form = column.get("type", ""), column.get("format", "")
    if kind and kind not in _COLUMN_TYPES:
        detail = f"must be one of {','.join(_COLUMN_TYPES)}"
        found.append(why.invalid(f"{path}.type", kind, detail))
    if form and form not in _COLUMN_FORMATS:
        detail = f"must be one of {','.join(_COLUMN_FORMATS)}"
        found.append(why.invalid(f"{path}.format", form, detail))
    if column.get("jsonPath"):
        _simple_path(found, column["jsonPath"], f"{path}.JSONPath")


def _selectable(found: list[Cause], version: Document, schema: Any, path: str) -> None:
    seen: set[str] = set()
    fields = list(items(version, "selectableFields"))
    if len(fields) > 8:
        found.append(why.too_many(f"{path}.selectableFields", len(fields), 8))
    for index, entry in enumerate(fields):
        here, value = f"{path}.selectableFields[{index}].jsonPath", entry.get("jsonPath", "")
        steps = value.removeprefix(".").split(".")
        target = schema
        for step in steps:
            target = field(target, "properties").get(step)
        if target is None:
            found.append(
                why.invalid(here, value, "is an invalid path: does not refer to a valid field")
            )
            continue
        if steps[0] == "metadata":
            found.append(why.invalid(here, value, "must not point to fields in metadata"))
        if target.get("type") not in ("string", "boolean", "integer"):
            detail = (
                "must point to a field of type string, boolean or integer. Enum string fields and"
                " strings with formats are allowed."
            )
            found.append(why.invalid(here, value, detail))
        if value in seen:
            found.append(why.duplicate(here, value))
        seen.add(value)


def _stored_versions(found: list[Cause], spec: Document, stored: list[str]) -> None:
    here = "status.storedVersions"
    names = [version.get("name") for version in items(spec, "versions")]
    for index, name in enumerate(stored):
        if name not in names:
            detail = (
                f"missing from spec.versions; {name} was previously a storage version, and must"
                " remain in spec.versions until a storage migration ensures no data remains"
                f" persisted in {name} and removes {name} from status.storedVersions"
            )
            found.append(why.invalid(f"{here}[{index}]", name, detail))
