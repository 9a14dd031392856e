"""The four patch formats, from the body of a PATCH to the patched document."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from traincrew.local.apiserver import patch
from traincrew.local.apiserver.apply import apply as ssa
from traincrew.local.apiserver.requests.negotiation import (
    APPLY,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
)
from traincrew.local.apiserver.requests.objectmeta import timestamp
from traincrew.local.apiserver.values import goformat
from traincrew.local.apiserver.values.codec import DecodeError, duplicate_fields, encode
from traincrew.local.apiserver.values.errors import StatusError, bad_request, unsupported_media_type
from traincrew.local.apiserver.values.limits import decode_request, refuse_deep

if TYPE_CHECKING:
    from traincrew.local.apiserver.registry import ResourceType
    from traincrew.local.apiserver.requests import Call, WriteOptions
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["Patched", "applied_configuration", "apply", "json_operations", "patched"]

_MAX_OPERATIONS = 10_000
_JSON_NAMES = {dict: "object", list: "array", str: "string", bool: "bool"}


class Patched(NamedTuple):
    """The result of a patch.

    Attributes:
        document: the new object, not validated yet.
        faults: errors of strict decoding in the patch: duplicate keys and the like.
        text: the patched object as error messages quote it.
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
        resource: resource of the object.
        document: the live object; may be modified.
        options: options of the write.

    Raises:
        StatusError: 400 when the patch cannot be decoded, 415 for a format that the resource does
            not support, 422 or 500 when it cannot be applied.
    """
    accepted = [JSON_PATCH, MERGE_PATCH, APPLY]
    if resource.custom is None:
        accepted.insert(2, STRATEGIC_PATCH)
    if call.content_type not in accepted:
        raise unsupported_media_type(accepted)
    strategic = call.content_type == STRATEGIC_PATCH
    try:
        change = decode_request(call.body)
    except DecodeError as error:
        raise bad_request(f"error decoding patch: {error}") from None
    faults = list(duplicate_fields(call.body, change))
    try:
        if call.content_type == JSON_PATCH:
            faults = _check_operations(change, faults, strict=options.validation != "Ignore")
            result = patch.json_patch(document, change)
            refuse_deep(result)  # a path has any number of steps
        elif not isinstance(change, dict):
            kind = "array" if isinstance(change, list) else goformat.TYPES.get(type(change), "null")
            prefix = "" if strategic else "error decoding patch: "
            raise bad_request(
                f"{prefix}json: cannot unmarshal {kind} into Go value of type "
                f"{goformat.TYPES[dict]}"
            )
        elif strategic:
            from traincrew.local.apiserver.patch import strategic_merge

            result = strategic_merge(document, change, resource.schema)
        else:
            result = patch.merge_patch(document, change)
    except patch.PatchError as error:
        raise _patch_error(error) from None
    except DecodeError as error:
        raise bad_request(f"error applying patch: {error}") from None
    if not isinstance(result, dict):
        raise bad_request("the patch does not leave an object")
    return Patched(result, faults, goformat.shown(change) if strategic else encode(result).decode())


def _patch_error(error: patch.PatchError) -> StatusError:
    """Return the error for a patch that cannot be applied, in upstream's words."""
    if error.code == 422:
        message = "the server rejected our request due to an error in our request"
        return StatusError(422, "Invalid", message, empty_details=True)
    return StatusError(error.code, "BadRequest" if error.code == 400 else "", error.message)


def json_operations(change: Any) -> list[Document]:
    """Return the operations of a JSON patch of a subresource.

    Raises:
        StatusError: 400 when it is no list of operations, 413 when it is too long.
    """
    _check_operations(change, [], strict=True)
    operations: list[Document] = change
    return operations


_OPERATION = ("op", "path", "from", "value")


def _check_operations(change: Any, faults: list[str], *, strict: bool) -> list[str]:
    """Check that a JSON patch is a list of operations.

    Returns:
        The errors of strict decoding.

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
    from traincrew.local.apiserver.values.yaml import from_yaml

    found: list[str] = []
    config: Any = None
    try:
        # Upstream parses everything as YAML, of which JSON is a subset. Parsing JSON as JSON is
        # faster; but YAML also allows, for example, a comma before a closing brace.
        with suppress(DecodeError):
            config = decode_request(call.body)
        if not isinstance(config, dict) or duplicate_fields(call.body, config):
            config, found = from_yaml(call.body)
    except DecodeError as error:
        raise bad_request(f"error decoding YAML: {error}") from None
    if not isinstance(config, dict):
        raise bad_request("an applied configuration must be an object")
    if config.get("metadata", config) is None:  # as if it had none
        del config["metadata"]
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
    """Merge an applied configuration into the live object (server-side apply).

    Raises:
        StatusError: 400 or 500 for a configuration that cannot be merged, 409 naming every field
            that another manager owns.
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
