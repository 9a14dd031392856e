"""The four patch formats, from the body of a PATCH to the patched document."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from . import goformat, patch, ssa
from .codec import DecodeError, decode, duplicate_fields, encode
from .errors import StatusError, bad_request, unsupported_media_type
from .negotiation import APPLY, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from .objectmeta import timestamp

if TYPE_CHECKING:
    from .registry import ResourceType
    from .requests import Call, WriteOptions

__all__ = ["Patched", "applied_configuration", "apply", "patched"]

Document = dict[str, Any]

_MAX_OPERATIONS = 10_000
_JSON_NAMES = {dict: "object", list: "array", str: "string", bool: "bool"}


class Patched(NamedTuple):
    """What a patch makes of an object.

    Attributes:
        document: the new object, not yet checked for anything.
        faults: what a strict reader finds in the patch: keys that occur twice and the like.
        text: what refusals of the new object quote.
    """

    document: Document
    faults: list[str]
    text: str


def patched(
    call: Call, resource: ResourceType, document: Document, options: WriteOptions
) -> Patched:
    """Apply the JSON, merge or strategic merge patch of a request.

    Args:
        call: the request.
        resource: what is patched.
        document: the live object; taken over.
        options: of the write.

    Raises:
        StatusError: 400 when the patch cannot be read, 415 for a format the resource does not
            take, 422 or 500 when it cannot be applied.
    """
    accepted = [JSON_PATCH, MERGE_PATCH, APPLY]
    if resource.custom is None:
        accepted.insert(2, STRATEGIC_PATCH)
    if call.content_type not in accepted:
        raise unsupported_media_type(accepted)
    strategic = call.content_type == STRATEGIC_PATCH
    try:
        change = decode(call.body)
    except DecodeError as error:
        raise bad_request(f"error decoding patch: {error}") from None
    faults = [f'duplicate field "{path}"' for path in duplicate_fields(call.body, change)]
    try:
        if call.content_type == JSON_PATCH:
            faults = _check_operations(change, faults, strict=options.validation != "Ignore")
            result = patch.json_patch(document, change)
        elif not isinstance(change, dict):
            kind = "array" if isinstance(change, list) else goformat.TYPES.get(type(change), "null")
            prefix = "" if strategic else "error decoding patch: "
            raise bad_request(
                f"{prefix}json: cannot unmarshal {kind} into Go value of type "
                f"{goformat.TYPES[dict]}"
            )
        elif strategic:
            from .strategic import strategic_merge

            result = strategic_merge(document, change, resource.schema)
        else:
            result = patch.merge_patch(document, change)
    except patch.PatchError as error:
        raise _refusal(error) from None
    if not isinstance(result, dict):
        raise bad_request("the patch does not leave an object")
    return Patched(result, faults, goformat.shown(change) if strategic else encode(result).decode())


def _refusal(error: patch.PatchError) -> StatusError:
    """Upstream names the reason only where it takes the blame."""
    if error.code == 422:
        message = "the server rejected our request due to an error in our request"
        return StatusError(422, "Invalid", message, empty_details=True)
    return StatusError(error.code, "BadRequest" if error.code == 400 else "", error.message)


_OPERATION = ("op", "path", "from", "value")


def _check_operations(change: Any, faults: list[str], *, strict: bool) -> list[str]:
    """Make sure a JSON patch is a list of operations.

    Returns:
        What a strict reader finds.

    Raises:
        StatusError: 400 when it is not, 413 when it is too long.
    """
    target = "handlers.jsonPatchOp" if strict else "jsonpatch.Operation"
    prefix = "error decoding patch: " if strict else ""

    def refuse(value: Any, where: str) -> StatusError:
        name = _JSON_NAMES.get(type(value), "number")
        return bad_request(f"{prefix}json: cannot unmarshal {name} into Go {where}")

    if not isinstance(change, list):
        raise refuse(change, f"value of type {'[]' + target if strict else 'jsonpatch.Patch'}")
    found = []
    for index, operation in enumerate(change):
        if not isinstance(operation, dict):
            raise refuse(operation, f"value of type {target}")
        for key, value in operation.items():
            if key not in _OPERATION:
                found.append(f'unknown field "[{index}].{key}"')
            elif strict and key != "value" and not isinstance(value, str | None):
                raise refuse(value, f"struct field jsonPatchOp.{key} of type string")
    if len(change) > _MAX_OPERATIONS:
        text = f"The allowed maximum operations in a JSON patch is {_MAX_OPERATIONS}"
        message = f"Request entity too large: {text}, got {len(change)}"
        raise StatusError(413, "RequestEntityTooLarge", message)
    return [f"json patch {fault}" for fault in (*found, *faults)]


def applied_configuration(call: Call) -> tuple[Document, list[str]]:
    """Decode the body of an apply, YAML or JSON.

    Raises:
        StatusError: 400 when it cannot be read.
    """
    from .yaml_codec import from_yaml

    found: list[str] = []
    config: Any = None
    try:
        # Upstream reads everything as YAML, which JSON is. What is JSON is faster read as such; but
        # a comma before a brace, for one, is allowed in YAML only.
        with suppress(DecodeError):
            config = decode(call.body)
        if not isinstance(config, dict) or duplicate_fields(call.body, config):
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
