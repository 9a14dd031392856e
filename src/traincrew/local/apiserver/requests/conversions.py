"""How a request waits for a conversion webhook although verbs are synchronous.

A custom resource whose definition has the strategy Webhook is converted by a webhook wherever the
stored version and the requested one differ. A verb, or what encodes a response, raises
`ConversionNeeded` for the objects whose conversion it lacks, and stores nothing; the webhook is
called, and it runs again with the answers. So a verb never waits between its first read and its
write, as with admission webhooks (`proposals`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from traincrew.local.apiserver.values.codec import decode, encode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traincrew.local.apiserver.schema import ObjectSchema
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["ConversionNeeded", "Conversions", "WebhookConversion"]


class WebhookConversion(NamedTuple):
    """What a definition says about its conversion webhook.

    Attributes:
        webhook: ``spec.conversion.webhook``.
        schemas: The schema of each version, by apiVersion.
    """

    webhook: Document
    schemas: Mapping[str, ObjectSchema]


class ConversionNeeded(Exception):  # noqa: N818 - not an error
    """Raised where a webhook has to convert objects first.

    Attributes:
        documents: The objects, in other versions.
        api_version: The version that is wanted.
    """

    def __init__(self, documents: Sequence[Document], api_version: str) -> None:
        super().__init__(f"{len(documents)} objects have to be converted to {api_version}")
        self.documents = documents
        self.api_version = api_version


class Conversions:
    """The objects that a webhook has converted for one request."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, bytes], bytes] = {}

    def converted(self, document: Document, api_version: str) -> Document:
        """Return an object in a version; the object itself if it has that version.

        Raises:
            ConversionNeeded: The webhook has not converted it yet.
        """
        if document["apiVersion"] == api_version:
            return document
        found = self._known.get((api_version, encode(document)))
        if found is None:
            raise ConversionNeeded([document], api_version)
        result: Document = decode(found)
        return result

    def record(self, needed: ConversionNeeded, results: Sequence[Document]) -> None:
        """Record the answers of the webhook, in the order of the objects."""
        for document, result in zip(needed.documents, results, strict=True):
            self._known[needed.api_version, encode(document)] = encode(result)

    def clear(self) -> None:
        """Forget all of them."""
        self._known.clear()
