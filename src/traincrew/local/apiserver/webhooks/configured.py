"""The webhooks that are configured: which of them match a request, and what they answer.

One is sent the object in a version that it knows; its answer comes back in the version of the
request.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

from traincrew.local.apiserver.values.errors import StatusError, bad_request, internal

from .calling import Reply, call_webhook
from .client import WebhookError
from .conversion import Converter
from .matching import MATCH_ERRORS, RequestAttributes, Webhook, conditions_hold, matching_version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.local.apiserver.requests.proposals import AdmissionAnswers
    from traincrew.local.apiserver.storage import Storage
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["GROUP", "ConfiguredWebhooks"]

GROUP = "admissionregistration.k8s.io"
_CONFIGURATIONS = {
    "mutating": f"mutatingwebhookconfigurations.{GROUP}",
    "validating": f"validatingwebhookconfigurations.{GROUP}",
}
_DRY_RUN_SAFE = {"None", "NoneOnDryRun"}


class ConfiguredWebhooks:
    """The webhooks of all configurations.

    Args:
        storage: Holds the configurations, and Services that they name.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._converter = Converter(storage)

    def exist(self) -> bool:
        """Return whether there is any configuration."""
        return any(self._storage.scan(each) for each in _CONFIGURATIONS.values())

    def of(self, phase: str) -> Iterator[Webhook]:
        """Yield those of a phase in the order in which they are called."""
        entries = self._storage.scan(_CONFIGURATIONS[phase])
        for entry in sorted(entries, key=lambda entry: entry.key[1]):
            for spec in entry.obj.get("webhooks") or ():
                yield Webhook(phase == "mutating", entry.key[1], spec)

    async def mutate(
        self,
        webhook: Webhook,
        request: Document,
        attributes: RequestAttributes,
        answers: AdmissionAnswers,
    ) -> bool:
        """Call a mutating webhook if it matches; return whether it has answered."""
        if not (version := self._matching_version(webhook, attributes, request)):
            return False
        shown = await self.in_version(request, version, attributes)
        reply = await self._reply(webhook, shown, answers)
        if reply is None:
            return False
        if reply.patch and (before := request["object"]) is not None:
            # A patch is for the object that the webhook was sent.
            sent = before if attributes.conversion is None else shown["object"]
            try:
                patched = reply.applied(sent)
                request["object"] = await self._converted(patched, before["apiVersion"], attributes)
            except WebhookError as error:
                if not webhook.ignores_failure:
                    raise _failed(webhook, error) from None
        return True

    async def validate(
        self, request: Document, attributes: RequestAttributes, answers: AdmissionAnswers
    ) -> None:
        """Call the validating webhooks that match, in parallel.

        Raises:
            StatusError: One denies the request, or cannot be called and its failure policy is Fail.
        """
        matching = [
            (webhook, await self.in_version(request, version, attributes))
            for webhook in self.of("validating")
            if (version := self._matching_version(webhook, attributes, request))
        ]
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._error_of(webhook, shown, answers))
                for webhook, shown in matching
            ]
        for task in tasks:
            if (error := task.result()) is not None:
                raise error

    # -- one webhook

    async def show(
        self,
        webhook: Webhook,
        request: Document,
        attributes: RequestAttributes,
        answers: AdmissionAnswers,
    ) -> None:
        """Call a webhook if it matches, and ignore its patch: there is no object to change."""
        if self._matching_version(webhook, attributes, request):
            await self._reply(webhook, {**request, "uid": str(uuid.uuid4())}, answers)

    def _matching_version(
        self, webhook: Webhook, attributes: RequestAttributes, request: Document
    ) -> str:
        """Return the version in which to send the object to a webhook; empty if it does not match.

        Raises:
            StatusError: The match cannot be evaluated and the failure policy is Fail, or the
                webhook does not support dry run.
        """
        try:
            if not (version := matching_version(webhook, attributes)):
                return ""
            variables = {
                "object": request.get("object"),
                "oldObject": request.get("oldObject"),
                "request": request,
            }
            if not conditions_hold(webhook, variables):
                return ""
        except MATCH_ERRORS as error:
            if webhook.ignores_failure:
                return ""
            raise internal(f'failed matching webhook "{webhook.name}": {error}') from None
        effects = webhook.spec.get("sideEffects")
        if request["dryRun"] and effects not in _DRY_RUN_SAFE:
            raise bad_request(f'admission webhook "{webhook.name}" does not support dry run')
        return version

    async def in_version(
        self, request: Document, version: str, attributes: RequestAttributes
    ) -> Document:
        """Return the request for one webhook: with its own UID, in a version that it knows.

        Raises:
            StatusError: The conversion webhook of the resource fails.
        """
        shown = {**request, "uid": str(uuid.uuid4())}
        if version == request["kind"]["version"]:
            return shown
        for part in ("kind", "resource"):
            shown[part] = {**request[part], "version": version}
        for part in ("object", "oldObject"):
            if shown[part] is not None:
                api_version = f"{attributes.group}/{version}"
                shown[part] = await self._converted(shown[part], api_version, attributes)
        return shown

    async def _converted(
        self, document: Document, api_version: str, attributes: RequestAttributes
    ) -> Document:
        """Return an object in another version of its resource."""
        if document["apiVersion"] == api_version:
            return document
        if attributes.conversion is None:
            return {**document, "apiVersion": api_version}
        (found,) = await self._converter.convert(attributes.conversion, [document], api_version)
        return found

    async def _error_of(
        self, webhook: Webhook, request: Document, answers: AdmissionAnswers
    ) -> StatusError | None:
        """Return the error of a validating webhook, if any, without cancelling the others."""
        try:
            await self._reply(webhook, request, answers)
        except StatusError as error:
            return error
        return None

    async def _reply(
        self, webhook: Webhook, request: Document, answers: AdmissionAnswers
    ) -> Reply | None:
        """Call a webhook; return None if it fails and its failure policy is Ignore.

        Raises:
            StatusError: It denies the write, or it cannot be called and its failure policy is Fail.
        """
        try:
            reply = await call_webhook(webhook, request, self._storage)
        except WebhookError as error:
            if webhook.ignores_failure:
                return None
            raise _failed(webhook, error) from None
        answers.warnings += reply.warnings
        if not reply.allowed:
            raise _denied(webhook, reply.status)
        return reply


def _failed(webhook: Webhook, error: WebhookError) -> StatusError:
    return internal(f'failed calling webhook "{webhook.name}": {error}')


def _denied(webhook: Webhook, status: Document) -> StatusError:
    """Return the error for a denial, in upstream's words (``ToStatusErr``)."""
    reason = status.get("message") or status.get("reason")
    denied = f'admission webhook "{webhook.name}" denied the request'
    code = status.get("code")
    number = code if isinstance(code, int) and 400 <= code <= 599 else 400
    details = status.get("details")
    return StatusError(
        number,
        str(status.get("reason") or ""),
        f"{denied}: {reason}" if reason else f"{denied} without explanation",
        details if isinstance(details, dict) else None,
    )
