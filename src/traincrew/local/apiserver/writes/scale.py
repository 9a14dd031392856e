"""The scale subresource of any resource with replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver import patch
from traincrew.local.apiserver.reads.versions import convert
from traincrew.local.apiserver.requests import write_options
from traincrew.local.apiserver.requests.negotiation import (
    APPLY,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    decode_body,
)
from traincrew.local.apiserver.requests.objectmeta import meta_of
from traincrew.local.apiserver.values import causes, fieldpath
from traincrew.local.apiserver.values.codec import DecodeError
from traincrew.local.apiserver.values.errors import (
    StatusError,
    bad_request,
    conflict,
    internal,
    invalid,
    unsupported_media_type,
)
from traincrew.local.apiserver.values.limits import decode_request, refuse_deep

from .patches import applied_configuration, json_operations

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.local.apiserver.registry import ResourceType
    from traincrew.local.apiserver.requests import Call
    from traincrew.local.apiserver.storage import Entry
    from traincrew.local.apiserver.values.documents import Document

    from .verbs import Verbs

__all__ = ["get_scale", "write_scale"]


def _selector_text(selector: Any) -> str:
    """Format a label selector, of either form, as a string."""
    if isinstance(selector, str):
        return selector
    if not isinstance(selector, dict):
        return ""
    if "matchLabels" not in selector and "matchExpressions" not in selector:
        return ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
    terms = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for expression in selector.get("matchExpressions") or ():
        key, values = expression["key"], ",".join(expression.get("values") or ())
        terms.append(
            {
                "In": f"{key} in ({values})",
                "NotIn": f"{key} notin ({values})",
                "Exists": key,
                "DoesNotExist": f"!{key}",
            }[expression["operator"]]
        )
    return ",".join(terms)


def get_scale(resource: ResourceType, entry: Entry) -> Document:
    """Return the Scale of an object.

    Raises:
        StatusError: 500 when a custom resource has no number of replicas, as upstream.
    """
    paths = resource.scale
    assert paths is not None
    number = fieldpath.lookup(convert(resource, entry).obj, paths.spec_replicas)
    if number is None and resource.custom is not None:
        raise internal(f'the spec replicas field "{paths.spec_replicas}" does not exist')
    return _scale(resource, entry)


def _scale(resource: ResourceType, entry: Entry) -> Document:
    """Return the Scale of an object; one without a number of replicas has 0."""
    paths = resource.scale
    assert paths is not None
    obj = convert(resource, entry).obj
    metadata = obj["metadata"]
    status: Document = {"replicas": fieldpath.lookup(obj, paths.status_replicas) or 0}
    if paths.selector and (text := _selector_text(fieldpath.lookup(obj, paths.selector))):
        status["selector"] = text
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            name: metadata[name]
            for name in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
            if name in metadata
        },
        "spec": {"replicas": fieldpath.lookup(obj, paths.spec_replicas) or 0},
        "status": status,
    }


def _as_object(value: Any) -> Document:
    if not isinstance(value, dict):
        raise bad_request("the patch does not leave an object")
    return value


def _requested(call: Call, current: Document) -> Document:
    """Return the Scale that a request asks for."""
    if call.method == "PUT":
        return decode_body(call.body, call.content_type)[0]
    try:
        if call.content_type == APPLY:
            return _as_object(patch.merge_patch(current, applied_configuration(call)[0]))
        change = decode_request(call.body)
        if call.content_type == JSON_PATCH:
            result = patch.json_patch(current, json_operations(change))
            refuse_deep(result)
            return _as_object(result)
        if call.content_type in {MERGE_PATCH, STRATEGIC_PATCH}:
            return _as_object(patch.merge_patch(current, change))
    except (DecodeError, patch.PatchError) as error:
        raise bad_request(f"the patch cannot be applied: {error}") from None
    raise unsupported_media_type([JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY])


def write_scale(
    verbs: Verbs,
    call: Call,
    resource: ResourceType,
    entry: Entry,
    admit: Callable[[Document, Document], None],
) -> Document:
    """Handle a PUT or PATCH of a Scale.

    Args:
        verbs: updates the object.
        call: the request.
        resource: of the object.
        entry: the object.
        admit: raises the error of who does not allow it; gets the new Scale and the old one.

    Raises:
        StatusError: 409 when the object has changed meanwhile, 422 for a negative number.
    """
    options = write_options(
        call,
        "UpdateOptions" if call.method == "PUT" else "PatchOptions",
        apply=call.content_type == APPLY,
    )
    scale = _requested(call, _scale(resource, entry))
    name = entry.key[1]
    metadata = meta_of(scale)
    given = metadata.get("resourceVersion")
    if given and given != str(entry.revision):
        raise conflict(resource.plural, resource.group, name)
    if metadata.get("name", name) != name:
        raise bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL "
            f"({name})"
        )
    spec = scale.get("spec")
    replicas = spec.get("replicas", 0) if isinstance(spec, dict) else 0
    _check(name, replicas)
    paths = resource.scale
    assert paths is not None
    old = _scale(resource, entry)
    admit(old | {"metadata": metadata or old["metadata"], "spec": {"replicas": replicas}}, old)
    new = convert(resource, entry).copy()
    fieldpath.store(new, paths.spec_replicas, replicas)
    return get_scale(
        resource, verbs.update(resource, entry, new, options, tracking_subresource="scale")
    )


def _check(name: str, replicas: Any) -> None:
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise StatusError(
            400,
            "BadRequest",
            'Scale in version "v1" cannot be handled as a Scale: spec.replicas: must be a whole '
            "number",
        )
    if replicas < 0:
        cause = causes.invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid("autoscaling", "Scale", name, [cause])
