"""Calling the webhooks that match a write: mutating ones in turn, validating ones in parallel."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

from traincrew.local.apiserver.requests.proposals import AdmissionAnswers, Proposal
from traincrew.local.apiserver.values.errors import (
    MODIFIED,
    StatusError,
    bad_request,
    conflict,
    internal,
)

from .calling import Reply, call_webhook
from .client import WebhookError
from .matching import MATCH_ERRORS, RequestAttributes, Webhook, conditions_hold, matching_version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.local.apiserver.registry import Registry, ResourceType
    from traincrew.local.apiserver.requests import Call
    from traincrew.local.apiserver.storage import Storage
    from traincrew.local.apiserver.values.documents import Document


__all__ = ["Webhooks"]

_GROUP = "admissionregistration.k8s.io"
_CONFIGURATIONS = {
    "mutating": f"mutatingwebhookconfigurations.{_GROUP}",
    "validating": f"validatingwebhookconfigurations.{_GROUP}",
}
# Limits the retries for an object that changes faster than its webhooks answer.
_MAX_ROUNDS = 16
_OPTIONS = {
    "CREATE": "CreateOptions",
    "UPDATE": "UpdateOptions",
    "DELETE": "DeleteOptions",
    "CONNECT": "",
}
_STREAMS = {
    "attach": "PodAttachOptions",
    "exec": "PodExecOptions",
    "portforward": "PodPortForwardOptions",
}
_FLAGS = ("stdin", "stdout", "stderr", "tty")
_DRY_RUN_SAFE = {"None", "NoneOnDryRun"}


class Webhooks:
    """The admission webhooks of a cluster.

    Args:
        storage: Holds their configurations and Services.
        registry: The served resources.
    """

    def __init__(self, storage: Storage, registry: Registry) -> None:
        self._storage = storage
        self._registry = registry

    def may_match(self, resource: ResourceType) -> bool:
        """Return whether a webhook may match writes of a resource.

        No webhook is called for webhook configurations: a broken one could never be repaired.
        """
        return resource.group != _GROUP and any(
            self._storage.scan(each) for each in _CONFIGURATIONS.values()
        )

    async def review(
        self, call: Call, resource: ResourceType, answers: AdmissionAnswers, proposal: Proposal
    ) -> None:
        """Call the webhooks that match a proposal, and record their answers.

        Raises:
            StatusError: A webhook denies it or cannot be called, or the object keeps changing.
        """
        request = self._request(call, resource, answers, proposal)
        if proposal.operation != "DELETE":
            answers.rounds += 1
            if answers.rounds > _MAX_ROUNDS:
                raise conflict(resource.plural, resource.group, request["name"], MODIFIED)
        attributes = self._attributes(call, resource, proposal, request["namespace"])
        if proposal.phase == "mutating" or proposal.operation == "DELETE":
            mutated = await self._mutate(request, attributes, answers)
            if mutated is not None:
                answers.record_mutated(proposal, mutated)
        if proposal.phase == "validating":
            await self._validate(request, attributes, answers)
            answers.record_validated(proposal)

    async def review_connect(self, call: Call, resource: ResourceType) -> None:
        """Call the webhooks that match a CONNECT: `exec`, `attach` and `portforward`.

        Raises:
            StatusError: A webhook denies it or cannot be called.
        """
        subresource = call.target.subresource or ""
        kind = _STREAMS.get(subresource)
        if kind is None or not self.may_match(resource):
            return
        answers = AdmissionAnswers()
        document: Document = {"kind": kind, "apiVersion": "v1", "metadata": {}}
        document |= {flag: True for flag in _FLAGS if call.flag(flag)}
        document |= {"container": call.text("container")} if call.text("container") else {}
        document |= {"command": call.query["command"]} if "command" in call.query else {}
        proposal = Proposal("validating", "CONNECT", document, None, None)
        request = self._request(call, resource, answers, proposal)
        namespace = call.target.namespace or ""
        request |= {"name": call.target.name, "namespace": namespace, "options": None}
        request["object"] = {key: value for key, value in document.items() if key != "metadata"}
        for part in ("kind", "requestKind"):
            request[part] = {"group": "", "version": "v1", "kind": kind}
        attributes = self._attributes(call, resource, proposal, namespace)
        for webhook in self._webhooks("mutating"):
            # A patch is ignored: there is no object to change.
            if self._matching_version(webhook, attributes, request):
                await self._reply(webhook, {**request, "uid": str(uuid.uuid4())}, answers)
        await self._validate(request, attributes, answers)

    # -- matching

    def _webhooks(self, phase: str) -> Iterator[Webhook]:
        entries = self._storage.scan(_CONFIGURATIONS[phase])
        for entry in sorted(entries, key=lambda entry: entry.key[1]):
            for spec in entry.obj.get("webhooks") or ():
                yield Webhook(phase == "mutating", entry.key[1], spec)

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

    def _attributes(
        self, call: Call, resource: ResourceType, proposal: Proposal, namespace: str
    ) -> RequestAttributes:
        documents = [each for each in (proposal.new, proposal.old) if each is not None]
        labels = [each["metadata"].get("labels") or {} for each in documents]
        namespace_labels = None
        if resource.identifier == "namespaces":
            namespace_labels = labels[0]
        elif namespace:
            entry = self._storage.get("namespaces", ("", namespace))
            namespace_labels = (
                (entry.obj["metadata"].get("labels") or {}) if entry is not None else {}
            )
        part = call.target.subresource
        return RequestAttributes(
            resource.group,
            resource.version,
            frozenset(
                each.version
                for each in self._registry
                if each.custom is not None and each.identifier == resource.identifier
            ),
            f"{resource.plural}/{part}" if part else resource.plural,
            resource.namespaced,
            proposal.operation,
            namespace_labels,
            labels,
        )

    # -- calling

    def _request(
        self, call: Call, resource: ResourceType, answers: AdmissionAnswers, proposal: Proposal
    ) -> Document:
        shown = proposal.new if proposal.new is not None else proposal.old
        assert shown is not None
        kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        plural = {
            "group": resource.group, "version": resource.version, "resource": resource.plural
        }  # fmt: skip
        name = shown["metadata"].get("name", "")
        namespace = shown["metadata"].get("namespace", "")
        part = call.target.subresource
        subresource = {"subResource": part, "requestSubResource": part} if part else {}
        options = {"kind": _OPTIONS[proposal.operation], "apiVersion": "meta.k8s.io/v1"}
        return {
            "kind": kind,
            "resource": plural,
            "requestKind": kind,
            "requestResource": plural,
            **subresource,
            "name": name,
            "namespace": name if resource.identifier == "namespaces" else namespace,
            "operation": proposal.operation,
            "userInfo": call.user,
            "object": proposal.new,
            "oldObject": proposal.old,
            "dryRun": answers.dry_run,
            "options": options,
        }

    async def _mutate(
        self, request: Document, attributes: RequestAttributes, answers: AdmissionAnswers
    ) -> Document | None:
        """Call the mutating webhooks in turn and return the object that they leave.

        A webhook with ``reinvocationPolicy: IfNeeded`` is called once more if others have changed
        the object after it.
        """
        seen: list[tuple[Webhook, Document | None]] = []
        for webhook in self._webhooks("mutating"):
            answered = await self._mutate_once(webhook, request, attributes, answers)
            if answered and webhook.spec.get("reinvocationPolicy") == "IfNeeded":
                seen.append((webhook, request["object"]))
        for webhook, left in seen:
            if request["object"] != left:
                await self._mutate_once(webhook, request, attributes, answers)
        document: Document | None = request["object"]
        return document

    async def _mutate_once(
        self,
        webhook: Webhook,
        request: Document,
        attributes: RequestAttributes,
        answers: AdmissionAnswers,
    ) -> bool:
        """Call a mutating webhook if it matches; return whether it has answered."""
        if not (version := self._matching_version(webhook, attributes, request)):
            return False
        reply = await self._reply(webhook, _in_version(request, version), answers)
        if reply is None:
            return False
        if reply.patch and request["object"] is not None:
            try:
                request["object"] = reply.applied(request["object"])
            except WebhookError as error:
                if not webhook.ignores_failure:
                    raise _failed(webhook, error) from None
        return True

    async def _validate(
        self, request: Document, attributes: RequestAttributes, answers: AdmissionAnswers
    ) -> None:
        matching = [
            (webhook, _in_version(request, version))
            for webhook in self._webhooks("validating")
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


def _in_version(request: Document, version: str) -> Document:
    """Return the request for one webhook: with its own UID, in a version that the webhook knows.

    Versions of a custom resource differ only in their name: there is no conversion.
    """
    shown = {**request, "uid": str(uuid.uuid4())}
    if version == request["kind"]["version"]:
        return shown
    group = request["kind"]["group"]
    for part in ("kind", "resource"):
        shown[part] = {**request[part], "version": version}
    for part in ("object", "oldObject"):
        if shown[part] is not None:
            shown[part] = {**shown[part], "apiVersion": f"{group}/{version}"}
    return shown


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
