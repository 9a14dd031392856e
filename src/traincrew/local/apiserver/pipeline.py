"""What a document goes through between the body of a request and the storage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import checks, ssa, validation
from .errors import StatusError, bad_request, invalid
from .objectmeta import timestamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .causes import Cause
    from .nodes import Node
    from .registry import ResourceType
    from .requests import WriteOptions

__all__ = [
    "after_apply",
    "check",
    "check_kind",
    "check_types",
    "default",
    "report_unknown",
    "track",
]

Document = dict[str, Any]


def _cannot_be_handled(resource: ResourceType, why: str) -> StatusError:
    return bad_request(
        f'{resource.kind} in version "{resource.version}" cannot be handled as a '
        f"{resource.kind}: {why}"
    )


def check_kind(resource: ResourceType, document: Document) -> None:
    """Make sure a document is of the kind its path says; built-in ones may leave it out.

    Raises:
        StatusError: 400 naming both.
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


def report_unknown(
    resource: ResourceType,
    document: Document,
    faults: Sequence[str],
    options: WriteOptions,
    warnings: list[str],
) -> None:
    """Drop the fields the schema does not know, and say so as ``fieldValidation`` wants it.

    Args:
        resource: what the document is.
        document: changed in place.
        faults: what the decoder found already.
        options: of the write.
        warnings: extended in Warn mode.

    Raises:
        StatusError: 400 in Strict mode.
    """
    unknown = resource.schema.prune(document)
    if options.validation == "Ignore" or not (faults or unknown):
        return
    found = [f'unknown field "{path}"' for path in unknown]
    # Upstream's JSON decoder tells of a duplicate when the second one comes, its YAML decoder
    # before anybody looks at the fields.
    duplicate = [fault for fault in faults if fault.startswith("duplicate")]
    found = [*(fault for fault in faults if fault not in duplicate), *found, *duplicate]
    if options.validation == "Strict":
        raise _cannot_be_handled(resource, "strict decoding error: " + ", ".join(found))
    warnings.extend(found)


def after_apply(
    resource: ResourceType,
    document: Document,
    faults: Sequence[str],
    options: WriteOptions,
    warnings: list[str],
) -> None:
    """Make an object of its kind of what server-side apply has merged.

    A Go struct holds no null and no empty list; a custom resource holds what it is given.

    Args:
        resource: what the document is.
        document: changed in place.
        faults: what a strict decoder found in the applied configuration.
        options: of the write.
        warnings: extended in Warn mode.

    Raises:
        StatusError: 400 in Strict mode, or for values of a wrong type.
    """
    if resource.custom is None:
        resource.schema.prune(document)
        check_types(resource, document)
    if not faults or options.validation == "Ignore":
        return
    text = f"error converting YAML to JSON: {faults[0]}"
    if options.validation == "Strict":
        raise bad_request(f"error strict decoding YAML: {text}")
    warnings.append(text)


def check_types(resource: ResourceType, document: Document) -> list[Cause]:
    """Refuse values of a wrong type, as upstream's decoder does.

    Returns:
        What else the schema has to say.

    Raises:
        StatusError: 400 with every wrong value.
    """
    causes: list[Cause] = []
    checks.check(resource.schema.node, document, None, causes)
    wrong = [cause for cause in causes if cause.reason == "FieldValueTypeInvalid"]
    if wrong:
        texts = ", ".join(f"{cause.field}: {cause.message}" for cause in wrong)
        raise _cannot_be_handled(resource, texts)
    return causes


def default(resource: ResourceType, document: Document) -> bool:
    """Fill in what the kind leaves out, in place, once the document has the shape of its kind.

    Whatever looks into a built-in document afterwards may rely on that shape.

    Returns:
        Whether the document is known to have all fields the schema requires.

    Raises:
        StatusError: 400 for values of a wrong type in built-in kinds, as upstream's decoder
            answers.
    """
    complete = False
    if resource.custom is None:
        node = resource.schema.node
        if "spec" in node.fields:
            document.setdefault("spec", {})
        causes = check_types(resource, document)
        if causes:
            _fill_required_lists(node, document)
        complete = not causes
    resource.schema.default(document)
    resource.schema.complete(document)
    return complete


def _fill_required_lists(node: Node, value: Document) -> None:
    """Make the lists a built-in schema requires; Go clients send them as null when empty.

    Whether an empty list will do is for the rules of the kind to say.
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


def check(
    resource: ResourceType, document: Document, old: Document | None, *, complete: bool
) -> None:
    """Refuse a document that breaks a rule of its kind or its schema.

    Args:
        resource: what it is.
        document: pruned and defaulted.
        old: the stored document when this is an update.
        complete: what `default` returned.

    Raises:
        StatusError: 422 with a cause for every broken rule.
    """
    causes: list[Cause] = []
    if not complete:
        causes += resource.schema.validate(document, old)
    if resource.custom is None:
        # Nobody but the schema asks for the fields of a status.
        causes = [
            cause
            for cause in causes
            if cause.reason != "FieldValueRequired" or not cause.field.startswith("status.")
        ]
    if resource.custom is None and not causes:
        causes += validation.validate(resource.group, resource.kind, document, old)
    if causes:
        name = document["metadata"].get("name", "")
        raise invalid(resource.group, resource.kind, name, causes)


def track(
    resource: ResourceType,
    document: Document,
    old: Document | None,
    options: WriteOptions,
    *,
    subresource: str | None,
    now: float,
) -> Document:
    """Record in ``metadata.managedFields`` who owns what after this write."""
    return ssa.track_update(
        old,
        document,
        manager=options.manager,
        schema=resource.schema,
        subresource=subresource or "",
        now=timestamp(now),
        api_version=resource.api_version,
    )
