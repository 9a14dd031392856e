"""Responses with objects and documents, shared by all resources and subresources."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from traincrew.local.apiserver.reads.lists import check_revision, parse_revision
from traincrew.local.apiserver.reads.representation import Representation
from traincrew.local.apiserver.requests.conversions import ConversionNeeded, Conversions
from traincrew.local.apiserver.requests.negotiation import decode_body, negotiate
from traincrew.local.apiserver.requests.proposals import AdmissionAnswers, Proposal
from traincrew.local.apiserver.values.errors import MODIFIED, conflict, no_such_path

from . import answers

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web

    from traincrew.local.apiserver.reads.lists import Page
    from traincrew.local.apiserver.registry import ResourceType
    from traincrew.local.apiserver.requests import Call
    from traincrew.local.apiserver.storage import Entry
    from traincrew.local.apiserver.values.documents import Document
    from traincrew.local.apiserver.webhooks import Converter, Webhooks
    from traincrew.local.apiserver.writes.verbs import Verbs, Written

    from .node_backend import NodeBackend
    from .tokens import Tokens

__all__ = ["Responder"]

T = TypeVar("T")

# Limits the attempts for objects that change faster than their webhook converts them.
_MAX_ROUNDS = 16


class Responder:
    """Runs verbs and sends their results once they are committed.

    Attributes:
        verbs: create, read, update, patch, delete.
        webhooks: the admission webhooks, called before a write.
        converter: calls the conversion webhooks.
        tokens: signs service account tokens.
        node: serves logs and commands; None before it is set.
    """

    def __init__(
        self, verbs: Verbs, webhooks: Webhooks, converter: Converter, tokens: Tokens
    ) -> None:
        self.verbs = verbs
        self.webhooks = webhooks
        self.converter = converter
        self.tokens = tokens
        self.node: NodeBackend | None = None

    def representation(self, call: Call, resource: ResourceType) -> Representation:
        """Return the negotiated representation of the response to a request."""
        form = negotiate(call.accept)
        return Representation(resource, form, call.text("includeObject"), self.verbs.clock)

    async def send_object(
        self, call: Call, resource: ResourceType, entry: Entry, *, code: int = 200
    ) -> web.Response:
        """Send an object once it is committed."""
        representation = self.representation(call, resource)
        body = await self.run_converted(
            resource, lambda bound: representation.of(bound).single(entry)
        )
        await self.wait_until_committed()
        response = answers.payload(body, code=code, content_type=representation.content_type)
        answers.add_warnings(response, call.warnings)
        return response

    async def send_page(
        self, call: Call, resource: ResourceType, page: Callable[[ResourceType], Page]
    ) -> web.Response:
        """Send a page of a list once the state it describes is committed."""
        representation = self.representation(call, resource)
        body = await self.run_converted(
            resource, lambda bound: representation.of(bound).page(page(bound))
        )
        await self.wait_until_committed()
        response = answers.payload(body, content_type=representation.content_type)
        answers.add_warnings(response, call.warnings)
        return response

    async def send_document(
        self, call: Call, content: Document, *, code: int = 200
    ) -> web.Response:
        """Send a document once the state it describes is committed."""
        negotiate(call.accept, shapes=False)
        await self.wait_until_committed()
        response = answers.document(content, code=code)
        answers.add_warnings(response, call.warnings)
        return response

    async def read(self, call: Call, resource: ResourceType) -> web.Response:
        """Handle a GET of an object."""
        target = call.target
        check_revision(parse_revision(call.text("resourceVersion")), self.verbs.storage.revision)
        assert target.name is not None
        entry = self.verbs.find(resource, target.namespace, target.name)
        return await self.send_object(call, resource, entry)

    async def write(self, call: Call, resource: ResourceType) -> web.Response:
        """Handle a PUT or PATCH of an object or of its status."""
        self.representation(call, resource)  # may be 406, which has to come before the write

        def attempt(resource: ResourceType) -> Written:
            if call.method == "PATCH":
                return self.verbs.patch(call, resource)
            return self.verbs.replace(call, resource, *decode_body(call.body, call.content_type))

        written = await self.run_admitted(call, resource, attempt)
        return await self.send_object(
            call, resource, written.entry, code=201 if written.created else 200
        )

    async def run_admitted(
        self, call: Call, resource: ResourceType, attempt: Callable[[ResourceType], T]
    ) -> T:
        """Run a verb that writes, and call the admission webhooks that it needs.

        Raises:
            StatusError: The error of the verb or of a webhook.
        """
        known = Conversions()
        if not self.webhooks.may_match(resource) and (
            resource.conversion is None or call.method == "DELETE"
        ):
            return await self.run_converted(resource, attempt, known, call.warnings)
        # Also for conversions: a new object keeps its UID and times from one attempt to the next.
        admission = call.admission = AdmissionAnswers()
        warnings_before = len(call.warnings)
        try:
            while True:
                try:
                    return await self.run_converted(resource, attempt, known, call.warnings)
                except Proposal as proposal:
                    del call.warnings[warnings_before:]
                    await self.webhooks.review(call, resource, admission, proposal)
                target = call.target
                found = self.verbs.registry.find(target.group, target.version, target.plural)
                if found is None:  # its definition was deleted meanwhile
                    raise no_such_path()
                resource = found
        finally:
            call.warnings.extend(admission.warnings)

    async def run_converted(
        self,
        resource: ResourceType,
        attempt: Callable[[ResourceType], T],
        known: Conversions | None = None,
        warnings: list[str] | None = None,
    ) -> T:
        """Run a verb, or encode a response, and call the conversion webhook for what it needs.

        Args:
            resource: the resource.
            attempt: what to run, with the resource that knows the webhook's answers.
            known: what the webhook has answered before; added to.
            warnings: those of the request; of an attempt that is repeated they are dropped.

        Raises:
            StatusError: the error of the attempt, or 500 when the webhook fails.
        """
        if resource.conversion is None:
            return attempt(resource)
        known = Conversions() if known is None else known
        warnings = [] if warnings is None else warnings
        before = len(warnings)
        for _ in range(_MAX_ROUNDS):
            try:
                return attempt(resource.bound(known))
            except ConversionNeeded as needed:
                del warnings[before:]
                await self.converter.answer(resource.conversion, needed, known)
        raise conflict(resource.plural, resource.group, "", MODIFIED)

    async def wait_until_committed(self) -> None:
        """Wait until the current state is committed."""
        if committed := self.verbs.storage.committed:
            await asyncio.shield(committed)
