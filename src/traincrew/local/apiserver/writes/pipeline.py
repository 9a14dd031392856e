"""The steps between a decoded request body and the storage: prune, default, validate, track.

`Creation.insert` and `Writer.update` call them in order; `http.dispatch` decodes the body.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver import validation
from traincrew.local.apiserver.apply import apply as ssa
from traincrew.local.apiserver.requests.objectmeta import timestamp
from traincrew.local.apiserver.schema import checks
from traincrew.local.apiserver.schema.builtin import object_meta
from traincrew.local.apiserver.schema.decoding import (
    annotated_number_fault,
    decode_fault,
    nested_schema_fault,
)
from traincrew.local.apiserver.schema.prune import drop_unknown, fill_required, prune, restore, zero
from traincrew.local.apiserver.values import causes
from traincrew.local.apiserver.values.causes import Cause
from traincrew.local.apiserver.values.codec import MAX_FAULTS, clone, encode_sorted, in_order
from traincrew.local.apiserver.values.errors import StatusError, bad_request, invalid
from traincrew.local.apiserver.warnings import repeated_owners

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traincrew.local.apiserver.registry import ResourceType
    from traincrew.local.apiserver.requests import WriteOptions
    from traincrew.local.apiserver.schema.node import SchemaNode
    from traincrew.local.apiserver.values.documents import Document
    from traincrew.local.apiserver.values.paths import Path

__all__ = [
    "after_apply",
    "check",
    "check_kind",
    "check_types",
    "default",
    "drop_repeated_owners",
    "report_unknown",
    "track",
]


def _cannot_be_handled(
    resource: ResourceType, why: str, options: WriteOptions | None
) -> StatusError:
    """Return the error for a decoding failure: 400 for a body, 422 for a patched object."""
    if options is not None and options.patched is not None:
        detail = f"Invalid value: {causes.quote(options.patched)}: {why}"
        return invalid("", "", "", [Cause("FieldValueInvalid", detail, "patch")])
    return bad_request(
        f'{resource.kind} in version "{resource.version}" cannot be handled as a '
        f"{resource.kind}: {why}"
    )


def check_kind(
    resource: ResourceType, document: Document, options: WriteOptions | None = None
) -> None:
    """Check that a document is of the kind its path names; built-in objects may leave it out.

    Afterwards the identifying fields of its metadata are known to have the right types.

    Raises:
        StatusError: 400 or 422 naming both kinds.
    """
    if resource.custom is None:
        document.setdefault("apiVersion", resource.api_version)
        document.setdefault("kind", resource.kind)
    for field in ("kind", "apiVersion"):
        if not document.get(field):
            raise bad_request(f"Object '{field.capitalize()}' is missing in the request body")
    version, kind = document["apiVersion"], document["kind"]
    if kind != resource.kind:
        raise bad_request(
            f'{kind} in version "{version}" cannot be handled as a {resource.kind}: '
            f"the kind in the data ({kind}) does not match the expected kind ({resource.kind})"
        )
    if version != resource.api_version:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version "
            f"({resource.api_version})"
        )
    metadata = document.get("metadata")
    if metadata is not None and (
        type(metadata) is not dict
        or not all(type(metadata.get(key, "")) in _TEXT_OR_NULL for key in _IDENTIFYING)
    ):
        fault = decode_fault(resource.schema.node, document) or "metadata: an object is expected"
        raise _cannot_be_handled(resource, fault, options)
    if resource.custom is not None and options is not None and metadata is not None:
        unreadable = decode_fault(object_meta(), metadata)
        if unreadable is not None:
            raise _cannot_be_handled(resource, unreadable, options)


_IDENTIFYING = ("name", "namespace", "generateName", "uid", "resourceVersion")
_TEXT_OR_NULL = (str, type(None))


_DUPLICATE = 'duplicate field "'


def report_unknown(
    resource: ResourceType,
    document: Document,
    faults: Sequence[str],
    options: WriteOptions,
    warnings: list[str],
    *,
    body: bytes = b"",
) -> bool:
    """Drop the fields that the schema does not know, and report them as ``fieldValidation`` asks.

    Args:
        resource: resource of the document.
        document: changed in place.
        faults: errors that the decoder has found.
        options: options of the write.
        warnings: extended in Warn mode.
        body: the document as it was sent, if it was sent as JSON.

    Returns:
        Whether the document is known to be valid by its schema.

    Raises:
        StatusError: 400 or 422 in Strict mode.
    """
    sent = clone(document) if resource.custom is None and options.validation == "Strict" else None
    unknown, valid = resource.schema.prune_and_check(document, options.dropped)
    valid = valid and resource.identifier not in _ANNOTATED_NUMBER
    if resource.custom is not None or (options.patched or "").startswith("{"):
        unknown.sort()  # upstream iterates over a map here
    if options.validation == "Ignore" or not (faults or unknown):
        return valid
    if body and not options.patched:
        duplicate = [fault[len(_DUPLICATE) : -1] for fault in faults]
        found = in_order(body, duplicate, unknown)
    else:
        found = [*faults, *(f'unknown field "{path}"' for path in unknown[:MAX_FAULTS])]
    if options.validation == "Strict":
        why = "strict decoding error: " + ", ".join(found)
        if sent is not None:
            why = decode_fault(resource.schema.node, sent, converted=_is_converted(options)) or why
        raise _cannot_be_handled(resource, why, options)
    if resource.custom is None and decode_fault(resource.schema.node, document):
        return False  # rejected later, for the wrong type only
    warnings.extend(found)
    return valid


def after_apply(
    resource: ResourceType,
    document: Document,
    config: Document,
    faults: Sequence[str],
    options: WriteOptions,
) -> tuple[str, ...]:
    """Convert the result of server-side apply to an object of its kind.

    A Go struct, such as the metadata of any object, holds no null and no empty list; the rest of a
    custom resource holds any value.

    Args:
        resource: resource of the document.
        document: changed in place.
        config: the applied configuration.
        faults: errors of strict decoding in the applied configuration.
        options: options of the write; its warnings are extended in Warn mode.

    Returns:
        The fields of a custom resource of which upstream stores something that it does not read
        back, such as empty labels or unknown fields: this write and the next one create new
        revisions, even if the object does not change.

    Raises:
        StatusError: 400 in Strict mode, 500 for values of a wrong type.
    """
    hidden: tuple[str, ...] = ()
    if resource.custom is None:
        resource.schema.prune(document, options.dropped)
        fault = _type_fault(resource, document)[0]
        metadata = document.get("metadata") or {}
        kind = f"{resource.group}/{resource.version}, Kind={resource.kind}"
        if fault.startswith("strconv."):
            named = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
            message = f"failed to convert to unversioned ({named}; {kind}): {fault}"
            raise StatusError(500, "", message)
        if fault:
            message = (
                f"failed to convert new object (/{metadata.get('name', '')}; {kind}) to proper "
                "version: "
                f"unable to convert unstructured object to {kind}: {fault}"
            )
            raise StatusError(500, "", message)
    elif type(document.get("metadata")) is dict:
        metadata = document["metadata"]
        sent = {
            key for key in (*metadata, *(config.get("metadata") or ())) if key != "managedFields"
        }
        prune(object_meta(), metadata)
        lost = ["metadata"] if sent - metadata.keys() else []
        hidden = tuple(lost + drop_unknown(resource.schema.node, document))
    if not faults or options.validation == "Ignore":
        return hidden
    text = f"error converting YAML to JSON: {faults[0]}"
    if options.validation == "Strict":
        raise bad_request(f"error strict decoding YAML: {text}")
    options.warnings.append(text)
    return hidden


# Upstream's internal type has a number that users see as an annotation.
_ANNOTATED_NUMBER = frozenset({"daemonsets.apps"})
_DEFINITION = "customresourcedefinitions.apiextensions.k8s.io"


def check_types(resource: ResourceType, document: Document, options: WriteOptions) -> list[Cause]:
    """Reject values of a wrong type, as upstream's decoder does.

    Returns:
        The other violations of the schema.

    Raises:
        StatusError: 400 or 422 for the first wrong value.
    """
    fault, found = _type_fault(resource, document, converted=_is_converted(options))
    if fault:
        raise _cannot_be_handled(resource, fault, options)
    return found


def _is_converted(options: WriteOptions) -> bool:
    """Return whether the object comes from a strategic merge patch: upstream prints a Go map."""
    return (options.patched or "").startswith("map[")


def _type_fault(
    resource: ResourceType, document: Document, *, converted: bool = False
) -> tuple[str, list[Cause]]:
    """Return the error of Go's decoder, if any, and all violations of the schema."""
    found = causes.Causes()
    node = resource.schema.node
    complete = False
    with suppress(causes.EnoughCausesError):
        checks.check(node, document, None, found)
        complete = True
    if not complete and (text := decode_fault(node, document, converted=converted)):
        return text, found  # a wrong type after the last violation that was reported
    wrong = [cause for cause in found if cause.reason == "FieldValueTypeInvalid"]
    if not wrong and resource.identifier in _ANNOTATED_NUMBER:
        return annotated_number_fault(document), found
    if not wrong and resource.identifier == _DEFINITION:
        return nested_schema_fault(document), found
    text = decode_fault(node, document, converted=converted) if wrong else None
    if text is None:
        text = ", ".join(f"{cause.field}: {cause.message}" for cause in wrong)
    return text, found


def default(
    resource: ResourceType, document: Document, options: WriteOptions, *, valid: bool = False
) -> bool:
    """Check types and set defaults, in place.

    Afterwards a built-in document is known to have the structure of its kind.

    Args:
        resource: resource of the document.
        document: changed in place.
        options: options of the write.
        valid: result of `report_unknown`, if only metadata and status have changed since.

    Returns:
        Whether the document is known to have all required fields.

    Raises:
        StatusError: 400 or 422 for values of a wrong type in built-in kinds, as from upstream's
            decoder.
    """
    complete = False
    if resource.custom is None:
        node = resource.schema.node
        if "spec" in node.fields and "spec" not in document:
            document["spec"] = {}
            valid = False
        faults = [] if valid else check_types(resource, document, options)
        if faults:
            _fill_required_lists(node, document)
        complete = not faults
        if significant := _SIGNIFICANT_EMPTY.get(resource.identifier):
            restore(document, [each for each in options.dropped if each[0][1] == significant])
    resource.schema.default(document)
    resource.schema.complete(document)
    return complete


# An empty list here prevents the default; validation rejects it.
_SIGNIFICANT_EMPTY = {"horizontalpodautoscalers.autoscaling": "policies"}


def drop_repeated_owners(document: Document, options: WriteOptions, *, changed: bool) -> None:
    """Drop duplicate owner references, in place, and add a warning.

    Args:
        document: changed in place.
        options: options of the write; its warnings are extended.
        changed: whether the client sent a patch instead of the whole object.
    """
    metadata = document.get("metadata")
    if type(metadata) is not dict:
        return
    owners = metadata.get("ownerReferences")
    if type(owners) is list and len(owners) > 1:
        options.warnings.extend(repeated_owners(document, changed=changed))
        first: dict[bytes, Any] = {}
        for owner in owners:
            first.setdefault(encode_sorted(owner), owner)
        metadata["ownerReferences"] = list(first.values())


def _fill_required_lists(node: SchemaNode, value: Document) -> None:
    """Add the lists that a built-in schema requires; Go clients send them as null when empty.

    Whether an empty list is valid is left to the rules of the kind.
    """
    for name in node.required:
        if name not in value and node.fields[name].type == "array":
            value[name] = []
    for name, item in value.items():
        child = node.fields.get(name) or node.values
        if child is None:
            continue
        if type(item) is dict:
            _fill_required_lists(child, item)
        elif type(item) is list and child.items is not None and child.items.type == "object":
            for each in item:
                _fill_required_lists(child.items, each)


def _violations(
    resource: ResourceType, document: Document, old: Document | None, missing: list[Cause]
) -> list[Cause]:
    """Validate an object of a built-in kind, even if required fields are missing.

    Upstream's rules see Go's zero values there, and report them like an empty string. A missing
    field that no rule reports is reported by the schema.
    """
    if not missing:
        return validation.validate(resource.group, resource.kind, document, old)
    if any(cause.reason != "FieldValueRequired" for cause in missing):
        return missing
    whole = clone(document)
    for name, child in resource.schema.node.fields.items():
        if name not in {"metadata", "status"}:
            if name in resource.schema.node.required and name not in whole:
                whole[name] = zero(child)
            fill_required(child, whole.get(name))
    found = validation.validate(resource.group, resource.kind, whole, old)
    named = {cause.field for cause in found}
    return [*found, *(cause for cause in missing if cause.field not in named)]


def _as_sent(found: list[Cause], shown: list[Cause]) -> list[Cause]:
    """Return the same causes with the values as they were sent, including empty lists."""
    texts: dict[tuple[str, str], list[Cause]] = {}
    for cause in shown:
        texts.setdefault((cause.field, cause.reason), []).append(cause)
    result = []
    for cause in found:
        same = texts.get((cause.field, cause.reason), [])
        result.append(same[0] if len(same) == 1 else cause)
    return result


_NOT_REQUIRED_BY_SCHEMA = ("status.", "metadata.")


def check(
    resource: ResourceType,
    document: Document,
    old: Document | None,
    dropped: Sequence[tuple[Path, Any]],
    *,
    complete: bool,
) -> None:
    """Reject a document that violates a rule of its kind or its schema.

    Args:
        resource: resource of the document.
        document: pruned and defaulted.
        old: the stored document, for an update.
        dropped: the empty lists and maps that `report_unknown` or `after_apply` removed; messages
            show them.
        complete: result of `default`.

    Raises:
        StatusError: 422 with a cause for every violation.
    """
    try:
        found = _broken_rules(resource, document, old, dropped, complete=complete)
    except causes.EnoughCausesError as error:
        found = error.found
    if found:
        name = document["metadata"].get("name", "")
        raise invalid(resource.group, resource.kind, name, found)


def _broken_rules(
    resource: ResourceType,
    document: Document,
    old: Document | None,
    dropped: Sequence[tuple[Path, Any]],
    *,
    complete: bool,
) -> list[Cause]:
    """Return a cause for every violation; for the arguments see `check`.

    Raises:
        EnoughCausesError: there are too many.
    """
    found: list[Cause] = []
    if not complete:
        if resource.custom is None:
            found += resource.schema.validate(document)
        else:
            found += validation.validate_custom(resource.schema, document, old)
    if resource.custom is None:
        # Only the schema requires fields of a status; metadata has its own rules.
        found = [
            cause
            for cause in found
            if cause.reason != "FieldValueRequired"
            or not cause.field.startswith(_NOT_REQUIRED_BY_SCHEMA)
        ]
        found = _violations(resource, document, old, found)
        if found and dropped:
            whole = clone(document)
            restore(whole, dropped)
            found = _as_sent(found, _violations(resource, whole, old, []))
    return found


def track(
    resource: ResourceType,
    document: Document,
    old: Document | None,
    options: WriteOptions,
    *,
    subresource: str | None,
    now: float,
) -> Document:
    """Update ``metadata.managedFields`` for this write."""
    if resource.custom is not None and type(document.get("status", {})) is not dict:
        document["metadata"].pop("managedFields", None)  # upstream drops them, too
        return document
    return ssa.track_update(
        old,
        document,
        manager=options.manager,
        schema=resource.schema,
        subresource=subresource or "",
        now=timestamp(now),
        api_version=resource.api_version,
    )
