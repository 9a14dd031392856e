"""What a document goes through between the body of a request and the storage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import causes, checks, ssa, validation
from .advice import repeated_owners
from .causes import Cause
from .codec import clone, in_order
from .decoding import annotated_number_fault, decode_fault
from .errors import StatusError, bad_request, invalid
from .nodes import object_meta
from .objectmeta import timestamp
from .prune import drop_unknown, fill_required, prune, restore, zero

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .nodes import Node
    from .paths import Path
    from .registry import ResourceType
    from .requests import WriteOptions

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

Document = dict[str, Any]


def _cannot_be_handled(
    resource: ResourceType, why: str, options: WriteOptions | None
) -> StatusError:
    """What a decoder's complaint becomes: of a body 400, of a patched object 422."""
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
    """Make sure a document is of the kind its path says; built-in ones may leave it out.

    What names the object has the right type afterwards, too.

    Raises:
        StatusError: 400 or 422 naming both.
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
        or not all(type(metadata.get(key, "")) in _TEXT_OR_NULL for key in _NAMING)
    ):
        fault = decode_fault(resource.schema.node, document) or "metadata: an object is expected"
        raise _cannot_be_handled(resource, fault, options)
    if resource.custom is not None and options is not None and metadata is not None:
        unreadable = decode_fault(object_meta(), metadata)
        if unreadable is not None:
            raise _cannot_be_handled(resource, unreadable, options)


_NAMING = ("name", "namespace", "generateName", "uid", "resourceVersion")
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
) -> None:
    """Drop the fields the schema does not know, and say so as ``fieldValidation`` wants it.

    Args:
        resource: what the document is.
        document: changed in place.
        faults: what the decoder found already.
        options: of the write.
        warnings: extended in Warn mode.
        body: the document as it was sent, if it was sent as JSON.

    Raises:
        StatusError: 400 or 422 in Strict mode.
    """
    sent = clone(document) if resource.custom is None and options.validation == "Strict" else None
    unknown = resource.schema.prune(document, options.dropped)
    if resource.custom is not None or (options.patched or "").startswith("{"):
        unknown.sort()  # upstream has read them from a map
    if options.validation == "Ignore" or not (faults or unknown):
        return
    if body and not options.patched:
        duplicate = [fault[len(_DUPLICATE) : -1] for fault in faults]
        found = in_order(body, duplicate, unknown)
    else:
        found = [*faults, *(f'unknown field "{path}"' for path in unknown)]
    if options.validation == "Strict":
        why = "strict decoding error: " + ", ".join(found)
        if sent is not None:
            why = decode_fault(resource.schema.node, sent, converted=_is_converted(options)) or why
        raise _cannot_be_handled(resource, why, options)
    if resource.custom is None and decode_fault(resource.schema.node, document):
        return  # refused soon, for that alone
    warnings.extend(found)


def after_apply(
    resource: ResourceType,
    document: Document,
    config: Document,
    faults: Sequence[str],
    options: WriteOptions,
) -> object:
    """Make an object of its kind of what server-side apply has merged.

    A Go struct, such as the metadata of any object, holds no null and no empty list; the rest of a
    custom resource holds what it is given.

    Args:
        resource: what the document is.
        document: changed in place.
        config: what was applied.
        faults: what a strict decoder found in the applied configuration.
        options: of the write; its warnings grow in Warn mode.

    Returns:
        What upstream stores of a custom resource and does not read back, such as empty labels:
        this write and the next one make new revisions, even of the same object.

    Raises:
        StatusError: 400 in Strict mode, 500 for values of a wrong type.
    """
    hidden = None
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
        hidden = sorted(sent - metadata.keys()) or None
        if drop_unknown(resource.schema.node, document):
            hidden = [*(hidden or ()), "unknown fields"]
    if not faults or options.validation == "Ignore":
        return hidden
    text = f"error converting YAML to JSON: {faults[0]}"
    if options.validation == "Strict":
        raise bad_request(f"error strict decoding YAML: {text}")
    options.warnings.append(text)
    return hidden


# Upstream's own type has a number that users see as an annotation.
_NUMBERED = frozenset({"daemonsets.apps"})


def check_types(resource: ResourceType, document: Document, options: WriteOptions) -> list[Cause]:
    """Refuse values of a wrong type, as upstream's decoder does.

    Returns:
        What else the schema has to say.

    Raises:
        StatusError: 400 or 422 for the first wrong value.
    """
    fault, found = _type_fault(resource, document, converted=_is_converted(options))
    if fault:
        raise _cannot_be_handled(resource, fault, options)
    return found


def _is_converted(options: WriteOptions) -> bool:
    """Whether a strategic merge patch made the object: upstream shows it as a Go map."""
    return (options.patched or "").startswith("map[")


def _type_fault(
    resource: ResourceType, document: Document, *, converted: bool = False
) -> tuple[str, list[Cause]]:
    """What Go cannot decode, and all the schema has to say."""
    found: list[Cause] = []
    node = resource.schema.node
    checks.check(node, document, None, found)
    wrong = [cause for cause in found if cause.reason == "FieldValueTypeInvalid"]
    if not wrong and resource.identifier in _NUMBERED:
        return annotated_number_fault(document), found
    text = decode_fault(node, document, converted=converted) if wrong else None
    if text is None:
        text = ", ".join(f"{cause.field}: {cause.message}" for cause in wrong)
    return text, found


def default(resource: ResourceType, document: Document, options: WriteOptions) -> bool:
    """Fill in what the kind leaves out, in place, once the document has the shape of its kind.

    Whatever looks into a built-in document afterwards may rely on that shape.

    Returns:
        Whether the document is known to have all fields the schema requires.

    Raises:
        StatusError: 400 or 422 for values of a wrong type in built-in kinds, as upstream's decoder
            answers.
    """
    complete = False
    if resource.custom is None:
        node = resource.schema.node
        if "spec" in node.fields:
            document.setdefault("spec", {})
        faults = check_types(resource, document, options)
        if faults:
            _fill_required_lists(node, document)
        complete = not faults
        if meant := _MEANT_EMPTY.get(resource.identifier):
            restore(document, [each for each in options.dropped if each[0][1] == meant])
    resource.schema.default(document)
    resource.schema.complete(document)
    return complete


# An empty list that keeps a default away; what the rules refuse.
_MEANT_EMPTY = {"horizontalpodautoscalers.autoscaling": "policies"}


def drop_repeated_owners(document: Document, options: WriteOptions, *, changed: bool) -> None:
    """Keep each owner once, in place, and say so.

    Args:
        document: changed in place.
        options: of the write; its warnings grow.
        changed: whether the writer sent changes, not the whole object.
    """
    metadata = document.get("metadata")
    if type(metadata) is not dict:
        return
    owners = metadata.get("ownerReferences")
    if type(owners) is list and len(owners) > 1:
        options.warnings.extend(repeated_owners(document, changed=changed))
        metadata["ownerReferences"] = [
            owner for index, owner in enumerate(owners) if owner not in owners[:index]
        ]


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


def _broken_rules(
    resource: ResourceType, document: Document, old: Document | None, missing: list[Cause]
) -> list[Cause]:
    """What the rules of a built-in kind say, also where required fields are missing.

    Upstream's rules see Go's zero values there, and say what they say of an empty text. The schema
    has the last word about a field no rule minds.
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
    """The same causes with the values as they were sent, empty lists included."""
    texts: dict[tuple[str, str], list[Cause]] = {}
    for cause in shown:
        texts.setdefault((cause.field, cause.reason), []).append(cause)
    result = []
    for cause in found:
        same = texts.get((cause.field, cause.reason), [])
        result.append(same[0] if len(same) == 1 else cause)
    return result


_OWN_RULES = ("status.", "metadata.")


def check(
    resource: ResourceType,
    document: Document,
    old: Document | None,
    dropped: Sequence[tuple[Path, Any]],
    *,
    complete: bool,
) -> None:
    """Refuse a document that breaks a rule of its kind or its schema.

    Args:
        resource: what it is.
        document: pruned and defaulted.
        old: the stored document when this is an update.
        dropped: the empty lists and maps `report_unknown` or `after_apply` took out of it, which
            messages show.
        complete: what `default` returned.

    Raises:
        StatusError: 422 with a cause for every broken rule.
    """
    found: list[Cause] = []
    if not complete:
        found += resource.schema.validate(document, old)
    if resource.custom is None:
        # Nobody but the schema asks for the fields of a status; metadata has rules of its own.
        found = [
            cause
            for cause in found
            if cause.reason != "FieldValueRequired" or not cause.field.startswith(_OWN_RULES)
        ]
        found = _broken_rules(resource, document, old, found)
        if found and dropped:
            whole = clone(document)
            restore(whole, dropped)
            found = _as_sent(found, _broken_rules(resource, whole, old, []))
    if found:
        name = document["metadata"].get("name", "")
        raise invalid(resource.group, resource.kind, name, found)


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
    if resource.custom is not None and type(document.get("status", {})) is not dict:
        document["metadata"].pop("managedFields", None)  # upstream forgets them, too
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
