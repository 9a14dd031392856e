"""Conversion webhooks: custom resources in another version of their definition.

The rules and words are upstream's (``apiextensions-apiserver/pkg/apiserver/conversion``): only
labels and annotations of the metadata may change, and what the webhook returns is pruned and
defaulted by the schema of its version.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared import meta
from traincrew.local.apiserver.values.codec import DecodeError, clone, decode, encode
from traincrew.local.apiserver.values.errors import StatusError
from traincrew.local.apiserver.values.goformat import TYPES
from traincrew.local.apiserver.values.limits import refuse_deep

from .client import WebhookError, post_review

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from traincrew.local.apiserver.requests.conversions import (
        ConversionNeeded,
        Conversions,
        WebhookConversion,
    )
    from traincrew.local.apiserver.storage import Storage
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["Converter"]

_VERSIONS = ("v1", "v1beta1")
_CALL_SECONDS = 30  # as upstream
_REQUEST_SECONDS = 60.0  # of all calls for one request
# What one call sends at most; a webhook answers about as much.
_MAX_OBJECTS = 200
_MAX_BYTES = 2 * 1024 * 1024


class Converter:
    """Calls conversion webhooks.

    Args:
        storage: Holds Services and their endpoints.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    async def answer(
        self, conversion: WebhookConversion, needed: ConversionNeeded, known: Conversions
    ) -> None:
        """Have objects converted, and record the results.

        Raises:
            StatusError: 500 if the webhook cannot be called, or if its answer breaks a rule.
        """
        known.record(needed, await self.convert(conversion, needed.documents, needed.api_version))

    async def convert(
        self, conversion: WebhookConversion, documents: Sequence[Document], api_version: str
    ) -> list[Document]:
        """Return objects in another version.

        Raises:
            StatusError: 500 if the webhook cannot be called, or if its answer breaks a rule.
        """
        results: list[Document] = []
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                for batch in _batches(documents):
                    results += await self._convert(conversion.webhook, batch, api_version)
        except TimeoutError:
            raise _failed(documents[0], "failed: context deadline exceeded") from None
        schema = conversion.schemas[api_version]
        for result in results:
            schema.prune(result)
            schema.default(result)
        return results

    async def _convert(
        self, webhook: Document, documents: Sequence[Document], api_version: str
    ) -> list[Document]:
        names = webhook.get("conversionReviewVersions") or ()
        known = [each for each in names if each in _VERSIONS]
        if not known:
            raise StatusError(500, "", "no supported conversion review versions")
        uid = str(uuid.uuid4())
        version = f"apiextensions.k8s.io/{known[0]}"
        review = {
            "kind": "ConversionReview",
            "apiVersion": version,
            "request": {"uid": uid, "desiredAPIVersion": api_version, "objects": list(documents)},
        }
        config = webhook.get("clientConfig") or {}
        try:
            body = await post_review(config, review, self._storage, seconds=_CALL_SECONDS)
            objects = _objects(body, version, uid)
        except WebhookError as error:
            raise _failed(documents[0], f"failed: {error}") from None
        if len(objects) != len(documents):
            counts = f"{len(objects)} objects, expected {len(documents)}"
            raise _failed(documents[0], f"returned {counts}")
        return [
            _checked(document, result, api_version)
            for document, result in zip(documents, objects, strict=True)
        ]


def _batches(documents: Sequence[Document]) -> Iterator[list[Document]]:
    """Divide objects into what single calls send."""
    batch: list[Document] = []
    size = 0
    for document in documents:
        length = len(encode(document))
        if batch and (len(batch) == _MAX_OBJECTS or size + length > _MAX_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(document)
        size += length
    if batch:
        yield batch


def _objects(body: bytes, version: str, uid: str) -> list[Any]:
    """Return the converted objects of an answer.

    Raises:
        WebhookError: It has none, or reports a failure.
    """
    try:
        review = decode(body)
        named = f"{review['apiVersion']}, Kind={review['kind']}"
        if named != f"{version}, Kind=ConversionReview":
            expected = f"{version}, Kind=ConversionReview"
            raise WebhookError(f"expected webhook response of {expected}, got {named}")
        response = review.get("response")
        if not response:
            raise WebhookError("no response provided")
        # Upstream does not check the UID of v1beta1.
        if version.endswith("/v1") and response.get("uid") != uid:
            got = json.dumps(response.get("uid") or "")
            raise WebhookError(f'expected response.uid="{uid}", got {got}')
        result = response.get("result") or {}
        if result.get("status") != "Success":
            status = f"response.result.status was '{result.get('status') or ''}', not 'Success'"
            raise WebhookError(str(result.get("message") or status))
        objects = response.get("convertedObjects") or []
    except (AttributeError, DecodeError, KeyError, TypeError) as error:
        raise WebhookError(f"the answer is not a ConversionReview: {error!r}") from None
    if not isinstance(objects, list):
        raise WebhookError("the answer's convertedObjects is no list")
    return objects


def _checked(document: Document, result: Any, api_version: str) -> Document:
    """Return a converted object with the metadata of the original, except labels and annotations.

    Raises:
        StatusError: 500 for an object that is another one.
    """
    if not isinstance(result, dict):
        raise _failed(document, "returned invalid object at index 0: it is no object")
    try:
        refuse_deep(result)
    except DecodeError as error:
        raise _failed(document, f"returned invalid object at index 0: {error}") from None
    for name, word, expected in (
        ("apiVersion", "groupVersion", api_version),
        ("kind", "kind", document["kind"]),
    ):
        if (got := result.get(name)) != expected:
            detail = f"invalid {word} (expected {expected}, received {got})"
            raise _failed(document, f"returned invalid object at index 0: {detail}")
    changed = result.get("metadata")
    if not isinstance(changed, dict):
        missing = changed is None and "metadata" not in result
        kind = "missing metadata" if missing else f"invalid metadata of type {_go_type(changed)}"
        raise _failed(document, f"returned invalid metadata: {kind} in converted object")
    original = document["metadata"]
    for name, word in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        if (before := original.get(name, "")) != (after := changed.get(name, "")):
            detail = f"must have the same {word}: {before} != {after}"
            raise _failed(document, f"returned invalid object: {detail}")
    metadata = clone(original)
    for name, check, path in (
        ("labels", meta.labels, "metadata.labels"),
        ("annotations", meta.annotation_rules, "metadata.annotation"),
    ):
        metadata.pop(name, None)
        if (values := changed.get(name)) is not None:
            if problem := _problem(name, values, original.get(name) or {}, check, path):
                raise _failed(document, f"returned invalid metadata: {problem}")
            metadata[name] = values
    return {**result, "metadata": metadata}


def _problem(
    name: str,
    values: Any,
    before: Document,
    check: Callable[[list[Cause], Document, str], None],
    path: str,
) -> str:
    """Return what is wrong with changed labels or annotations; empty if they are valid."""
    if not isinstance(values, dict):
        return f"invalid metadata.{name} of type {_go_type(values)} in converted object"
    for key, value in values.items():
        if not isinstance(value, str):
            kind = _go_type(value)
            return f"metadata.{name}[{key}] must be a string, but is {kind} in converted object"
    found: list[Cause] = []
    if values != before:
        check(found, values, path)
    texts = [f"{cause.field}: {cause.message}" for cause in found]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]" if texts else ""


def _go_type(value: Any) -> str:
    return TYPES.get(type(value), "<nil>")


def _failed(document: Document, what: str) -> StatusError:
    """Return the error in upstream's form, which names the version before the conversion."""
    kind = f"{document['apiVersion']}, Kind={document['kind']}"
    return StatusError(500, "", f"conversion webhook for {kind} {what}")
