"""What upstream's decoder does with a document: it checks kind, fields and types.

Afterwards a document has the structure of its kind; `pipeline` has the steps that follow.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from traincrew.local.apiserver.schema import checks
from traincrew.local.apiserver.schema.builtin import object_meta
from traincrew.local.apiserver.schema.decoding import (
    decode_fault,
)
from traincrew.local.apiserver.schema.prune import drop_unknown, prune
from traincrew.local.apiserver.values import causes
from traincrew.local.apiserver.values.causes import Cause
from traincrew.local.apiserver.values.codec import clone
from traincrew.local.apiserver.values.errors import StatusError, bad_request, invalid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traincrew.local.apiserver.registry import ResourceType
    from traincrew.local.apiserver.requests import WriteOptions
    from traincrew.local.apiserver.values.codec import Faults
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["after_apply", "check_kind", "check_types", "report_unknown", "significant"]


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
    if resource.custom is not None and metadata is not None:
        unreadable = decode_fault(object_meta(), metadata)
        if unreadable is not None:
            raise _cannot_be_handled(resource, unreadable, options)


_IDENTIFYING = ("name", "namespace", "generateName", "uid", "resourceVersion")
_TEXT_OR_NULL = (str, type(None))


def report_unknown(
    resource: ResourceType,
    document: Document,
    faults: Faults,
    options: WriteOptions,
    warnings: list[str],
) -> bool:
    """Drop the fields that the schema does not know, and report them as ``fieldValidation`` asks.

    Args:
        resource: resource of the document.
        document: changed in place.
        faults: errors that the decoder has found.
        options: options of the write.
        warnings: extended in Warn mode.

    Returns:
        Whether the document is known to be valid by its schema.

    Raises:
        StatusError: 400 or 422 in Strict mode.
    """
    sent = clone(document) if resource.custom is None and options.validation == "Strict" else None
    unknown, valid = resource.schema.prune_and_check(document, options.dropped)
    valid = valid and not resource.strategy.decoded_always
    if resource.custom is not None or (options.patched or "").startswith("{"):
        unknown.sort()  # upstream iterates over a map here
    if options.validation == "Ignore" or not (faults or unknown):
        return valid
    found = faults.with_unknown(unknown)
    if options.validation == "Strict":
        why = "strict decoding error: " + ", ".join(found)
        if sent is not None:
            why = decode_fault(resource.schema.node, sent, converted=_is_converted(options)) or why
        raise _cannot_be_handled(resource, why, options)
    if not valid and resource.custom is None and decode_fault(resource.schema.node, document):
        return False  # rejected later, for the wrong type only
    warnings.extend(found)
    return valid


class Applied(NamedTuple):
    """What `after_apply` has found.

    Attributes:
        hidden: the fields of a custom resource of which upstream stores something that it does not
            read back, such as empty labels or unknown fields: this write and the next one create
            new revisions, even if the object does not change.
        valid: whether the object is known to be valid by its schema.
    """

    hidden: tuple[str, ...]
    valid: bool


def after_apply(
    resource: ResourceType,
    document: Document,
    config: Document,
    faults: Sequence[str],
    options: WriteOptions,
) -> Applied:
    """Convert the result of server-side apply to an object of its kind.

    A Go struct, such as the metadata of any object, holds no null and no empty list; the rest of a
    custom resource holds any value.

    Args:
        resource: resource of the document.
        document: changed in place.
        config: the applied configuration.
        faults: errors of strict decoding in the applied configuration.
        options: options of the write; its warnings are extended in Warn mode.

    Raises:
        StatusError: 400 in Strict mode, 500 for values of a wrong type.
    """
    hidden: tuple[str, ...] = ()
    valid = False
    if resource.custom is None:
        resource.schema.prune(document, options.dropped)
        fault, found = _type_fault(resource, document)
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
        valid = not significant(found)
    elif type(document.get("metadata")) is dict:
        metadata = document["metadata"]
        sent = {
            key for key in (*metadata, *(config.get("metadata") or ())) if key != "managedFields"
        }
        prune(object_meta(), metadata)
        lost = ["metadata"] if sent - metadata.keys() else []
        hidden = tuple(lost + drop_unknown(resource.schema.node, document))
    if not faults or options.validation == "Ignore":
        return Applied(hidden, valid)
    text = f"error converting YAML to JSON: {faults[0]}"
    if options.validation == "Strict":
        raise bad_request(f"error strict decoding YAML: {text}")
    options.warnings.append(text)
    return Applied(hidden, valid)


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


_NOT_REQUIRED_BY_SCHEMA = ("status.", "metadata.")


def significant(found: list[Cause]) -> list[Cause]:
    """Return the violations of a built-in kind's schema for which upstream refuses an object.

    Only the schema requires fields of a status; metadata has its own rules.
    """
    return [
        cause
        for cause in found
        if cause.reason != "FieldValueRequired"
        or not cause.field.startswith(_NOT_REQUIRED_BY_SCHEMA)
    ]


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
    if not wrong and resource.strategy.decode_fault is not None:
        return resource.strategy.decode_fault(document), found
    text = decode_fault(node, document, converted=converted) if wrong else None
    if text is None:
        text = ", ".join(f"{cause.field}: {cause.message}" for cause in wrong)
    return text, found
