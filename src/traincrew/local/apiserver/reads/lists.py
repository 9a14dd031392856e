"""LIST: selection, pages and the requested resourceVersion."""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from traincrew.local.apiserver.storage import CompactedError
from traincrew.local.apiserver.values import causes
from traincrew.local.apiserver.values.codec import DecodeError, decode, encode
from traincrew.local.apiserver.values.errors import StatusError, bad_request, expired, invalid

from .selection import Selection
from .versions import selected

if TYPE_CHECKING:
    from traincrew.local.apiserver.registry import ResourceType
    from traincrew.local.apiserver.requests import Call
    from traincrew.local.apiserver.storage import Entry, Key, Storage

__all__ = ["Page", "check_revision", "list_page", "parse_revision"]

_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can "
    "start a new list without the continue parameter, or use the continue token in this response "
    "to retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)


class Page(NamedTuple):
    """One page of a list.

    Attributes:
        entries: the objects, in key order.
        revision: resourceVersion of the list.
        token: continue token for the next page; empty on the last one.
        remaining: how many objects follow this page; None when selectors make it unknown.
    """

    entries: list[Entry]
    revision: int
    token: str
    remaining: int | None


def parse_revision(text: str) -> int | None:
    """Parse a resourceVersion parameter; return None when it is not given.

    Raises:
        StatusError: 400 when it is not a number.
    """
    if not text:
        return None
    if not text.isascii() or not text.isdigit():
        raise bad_request(f'Invalid value: "{text}": resourceVersion must be a whole number')
    return int(text)


def check_revision(revision: int | None, current: int) -> None:
    """Reject a revision that does not exist yet.

    Raises:
        StatusError: 504, after which clients retry.
    """
    if revision is not None and revision > current:
        text = "Too large resource version"
        raise StatusError(
            504,
            "Timeout",
            f"{text}: {revision}, current: {current}",
            {
                "causes": [{"reason": "ResourceVersionTooLarge", "message": text}],
                "retryAfterSeconds": 1,
            },
        )


def _token(revision: int, key: Key) -> str:
    token = {"v": "meta.k8s.io/v1", "rv": revision, "start": "/".join(key)}
    return base64.urlsafe_b64encode(encode(token)).decode().rstrip("=")


def _parse_token(text: str) -> tuple[int, Key]:
    try:
        token = decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        namespace, _, name = token["start"].partition("/")
        revision = int(token["rv"])
    except (binascii.Error, DecodeError, KeyError, TypeError, AttributeError, ValueError):
        raise bad_request(f'continue key is not valid: "{text}"') from None
    return revision, (namespace, name)


def _check_options(call: Call, revision: int | None) -> str:
    """Reject contradictory options; return resourceVersionMatch."""
    match = call.text("resourceVersionMatch")
    token = call.text("continue")
    cause = None
    field = "resourceVersionMatch"
    if call.flag("sendInitialEvents") is not None:
        cause = causes.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")
    elif match and revision is None:
        detail = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        cause = causes.forbidden(field, detail)
    elif match and token:
        detail = "resourceVersionMatch is forbidden when continue is provided"
        cause = causes.forbidden(field, detail)
    elif match not in {"", "Exact", "NotOlderThan"}:
        cause = causes.not_supported(field, match, ["Exact", "NotOlderThan", ""])
    elif match == "Exact" and revision == 0:
        detail = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        cause = causes.forbidden(field, detail)
    if cause is not None:
        raise invalid("meta.k8s.io", "ListOptions", "", [cause])
    if token and revision:
        raise bad_request("specifying resource version is not allowed when using continue")
    return match


def list_page(storage: Storage, call: Call, resource: ResourceType) -> Page:
    """Return the page that a LIST request asks for.

    Raises:
        StatusError: 400 or 422 for its options, 410 when the requested revision is too old.
        ConversionNeeded: a webhook has to convert objects before they can be selected.
    """
    selection = Selection(call, resource)
    revision = parse_revision(call.text("resourceVersion"))
    match = _check_options(call, revision)
    limit = max(call.number("limit") or 0, 0)
    shown = storage.revision
    after: Key | None = None
    if token := call.text("continue"):
        at, after = _parse_token(token)
        if at >= 0:  # -1 marks a token that continues with the current state
            shown = at
    elif match == "Exact" or (revision and limit and not match):
        assert revision is not None
        shown = revision
    check_revision(max(shown, revision or 0), storage.revision)
    try:
        entries = _entries(storage, selection, resource, shown)
    except CompactedError:
        metadata = {}
        if after is not None:
            metadata = {"continue": _token(-1, after)}
            raise expired(_TOO_OLD, metadata) from None
        raise expired(f"The resourceVersion for the provided list is too old: {shown}") from None
    if after is not None:
        entries = entries[bisect_right(entries, after, key=lambda entry: entry.key) :]
    if not selection.everything:
        entries = selected(resource, selection, entries)
    rest = len(entries) - limit
    if not limit or rest <= 0:
        return Page(entries, shown, "", None)
    entries = entries[:limit]
    token = _token(shown, entries[-1].key)
    return Page(entries, shown, token, rest if selection.everything else None)


def _entries(
    storage: Storage, selection: Selection, resource: ResourceType, revision: int
) -> list[Entry]:
    identifier = resource.identifier
    if revision != storage.revision:
        return storage.scan_at(identifier, selection.namespace, revision)
    if selection.only is not None:
        entry = storage.get(identifier, selection.only)
        return [entry] if entry is not None else []
    return storage.scan(identifier, selection.namespace)
