"""The four patch formats, from the body of a PATCH to the patched document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import patch, ssa
from .codec import DecodeError, decode, duplicate_fields
from .errors import StatusError, bad_request, unsupported_media_type
from .negotiation import APPLY, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from .objectmeta import timestamp

if TYPE_CHECKING:
    from .registry import ResourceType
    from .requests import Call, WriteOptions

__all__ = ["applied_configuration", "apply", "patched"]

Document = dict[str, Any]


def patched(call: Call, resource: ResourceType, document: Document) -> tuple[Document, list[str]]:
    """Apply the JSON, merge or strategic merge patch of a request.

    Args:
        call: the request.
        resource: what is patched.
        document: the live object; taken over.

    Returns:
        The result and what a strict reader finds in the patch: keys that occur twice.

    Raises:
        StatusError: 400 when the patch cannot be read, 415 for a format the resource does not
            take, 422 when it cannot be applied.
    """
    accepted = [JSON_PATCH, MERGE_PATCH, APPLY]
    if resource.custom is None:
        accepted.insert(2, STRATEGIC_PATCH)
    if call.content_type not in accepted:
        raise unsupported_media_type(accepted)
    try:
        change = decode(call.body)
    except DecodeError as error:
        raise bad_request(f"the patch cannot be read: {error}") from None
    faults = [f'duplicate field "{path}"' for path in duplicate_fields(call.body, change)]
    try:
        if call.content_type == JSON_PATCH:
            if not isinstance(change, list):
                raise bad_request("a JSON patch must be a list of operations")
            result = patch.json_patch(document, change)
        elif not isinstance(change, dict):
            raise bad_request("a merge patch must be an object")
        elif call.content_type == MERGE_PATCH:
            result = patch.merge_patch(document, change)
        else:
            from . import strategic

            result = strategic.strategic_merge(document, change, resource.schema)
    except patch.PatchError as error:
        raise StatusError(
            422,
            "Invalid",
            f"the server rejected our request due to an error in our request: {error}",
        ) from None
    if not isinstance(result, dict) or not isinstance(result.get("metadata", {}), dict):
        raise bad_request("the patch does not leave an object")
    return result, faults


def applied_configuration(call: Call) -> tuple[Document, list[str]]:
    """Decode the body of an apply, YAML or JSON.

    Raises:
        StatusError: 400 when it cannot be read.
    """
    from .yaml_codec import from_yaml

    found: list[str] = []
    try:
        if call.body.lstrip()[:1] == b"{":
            config = decode(call.body)
            if duplicate_fields(call.body, config):
                found = from_yaml(call.body)[1]  # JSON is YAML; upstream reads it as that
        else:
            config, found = from_yaml(call.body)
    except DecodeError as error:
        raise bad_request(f"error decoding YAML: {error}") from None
    if not isinstance(config, dict):
        raise bad_request("an applied configuration must be an object")
    return config, ["yaml: unmarshal errors:\n  " + "\n  ".join(found)] if found else []


def apply(
    resource: ResourceType,
    live: Document | None,
    config: Document,
    options: WriteOptions,
    *,
    subresource: str | None,
    now: float,
) -> Document:
    """Server-side apply.

    Raises:
        StatusError: 400 or 500 for a configuration that cannot be merged, 409 naming every field
            that somebody else owns.
    """
    try:
        return ssa.apply(
            live,
            config,
            manager=options.manager,
            schema=resource.schema,
            force=bool(options.force),
            subresource=subresource or "",
            now=timestamp(now),
            api_version=resource.api_version,
        )
    except ssa.ApplyError as error:
        reason = "BadRequest" if error.code == 400 else ""
        raise StatusError(error.code, reason, str(error)) from None
    except ssa.ApplyConflictError as error:
        causes = [
            {"reason": cause.reason, "message": cause.message, "field": cause.field}
            for cause in error.causes
        ]
        raise StatusError(409, "Conflict", error.message, {"causes": causes}) from None
