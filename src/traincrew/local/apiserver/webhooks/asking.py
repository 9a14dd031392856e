"""One admission review: mutating policies and webhooks in turn, then the validating ones."""

from __future__ import annotations

from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from traincrew.local.apiserver.kinds.admissionregistration.identifiers import (
    ALL,
    BINDINGS,
    MUTATING_BINDINGS,
)
from traincrew.local.apiserver.requests.proposals import AdmissionAnswers, Proposal
from traincrew.local.apiserver.values.errors import MODIFIED, conflict

from .configured import GROUP, ConfiguredWebhooks
from .describing import admission_request, connect_options, with_metadata
from .matching import RequestAttributes, Reviewed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traincrew.local.apiserver.authorization import Authorizer
    from traincrew.local.apiserver.registry import Registry, ResourceType
    from traincrew.local.apiserver.requests import Call
    from traincrew.local.apiserver.requests.proposals import Operation
    from traincrew.local.apiserver.storage import Storage
    from traincrew.local.apiserver.values.documents import Document

    from .matching import Webhook
    from .policies import Policies

__all__ = ["Webhooks"]

# Limits the retries for an object that changes faster than its webhooks answer.
_MAX_ROUNDS = 16
_STREAMS = {
    "attach": "PodAttachOptions",
    "exec": "PodExecOptions",
    "portforward": "PodPortForwardOptions",
}
_PROXIES = {"pods": "PodProxyOptions", "services": "ServiceProxyOptions"}


class Webhooks:
    """The admission webhooks of a cluster.

    Args:
        storage: Holds their configurations and Services.
        registry: The served resources.
        authorizer: Answers what expressions of policies ask.
    """

    def __init__(self, storage: Storage, registry: Registry, authorizer: Authorizer) -> None:
        self._storage = storage
        self._registry = registry
        self._configured = ConfiguredWebhooks(storage)
        self._authorizer = authorizer

    @cached_property
    def _policies(self) -> Policies:
        """The policies; imported with the first one."""
        from .policies import Policies

        return Policies(self._storage, self._registry, self._authorizer)

    def _has_policies(self, resource: ResourceType) -> bool:
        """Return whether a policy may apply to writes of a resource.

        None applies to policies: a broken one could never be repaired.
        """
        return resource.identifier not in ALL and any(
            map(self._storage.scan, (BINDINGS, MUTATING_BINDINGS))
        )

    def may_match(self, resource: ResourceType) -> bool:
        """Return whether a webhook or a policy may match writes of a resource."""
        return self._has_policies(resource) or (
            _has_webhooks(resource) and self._configured.exist()
        )

    async def review(
        self, call: Call, resource: ResourceType, answers: AdmissionAnswers, proposal: Proposal
    ) -> None:
        """Call the webhooks that match a proposal, and record their answers.

        Raises:
            StatusError: A webhook denies it or cannot be called, or the object keeps changing.
        """
        request = admission_request(call, resource, answers, proposal)
        if proposal.operation != "DELETE":
            answers.rounds += 1
            if answers.rounds > _MAX_ROUNDS:
                raise conflict(resource.plural, resource.group, request["name"], MODIFIED)
        attributes = self._attributes(call, resource, proposal, request["namespace"])
        hooked = _has_webhooks(resource)
        converted: dict[str, Document] = {}
        if proposal.phase == "mutating" or proposal.operation == "DELETE":
            mutated = await self._mutate(resource, request, attributes, answers)
            if mutated is not None:
                answers.record_mutated(proposal, mutated)
        if proposal.phase == "validating":
            if attributes.conversion is not None and self._has_policies(resource):
                for version in self._policies.versions(attributes, request["name"]):
                    converted[version] = await self._configured.in_version(
                        request, version, attributes
                    )
            self._apply_policies(resource, request, attributes, answers.warnings, converted)
            if hooked:
                await self._configured.validate(request, attributes, answers)
            answers.record_validated(proposal)

    def _reviewed(
        self, resource: ResourceType, request: Document, attributes: RequestAttributes
    ) -> Reviewed:
        namespace = None
        if request["namespace"] and resource.identifier != "namespaces":
            entry = self._storage.get("namespaces", ("", request["namespace"]))
            namespace = None if entry is None else entry.obj
        return Reviewed(request, attributes, namespace)

    async def review_connect(self, call: Call, resource: ResourceType) -> None:
        """Call the webhooks that match a CONNECT: `exec`, `attach`, `portforward` and `proxy`.

        Raises:
            StatusError: A webhook denies it or cannot be called.
        """
        subresource = call.target.subresource or ""
        proxied = _PROXIES.get(resource.plural) if subresource == "proxy" else None
        kind = proxied or _STREAMS.get(subresource)
        if kind is None or not self.may_match(resource):
            return
        answers = AdmissionAnswers()
        document = connect_options(call, kind)
        proposal = Proposal("validating", "CONNECT", document, None, None)
        request = admission_request(call, resource, answers, proposal)
        namespace = call.target.namespace or ""
        request |= {"name": call.target.name, "namespace": namespace, "options": None}
        request["object"] = {key: value for key, value in document.items() if key != "metadata"}
        for part in ("kind", "requestKind"):
            request[part] = {"group": "", "version": "v1", "kind": kind}
        attributes = self._attributes(call, resource, proposal, namespace)
        for webhook in self._configured.of("mutating"):
            await self._configured.show(webhook, request, attributes, answers)
        self._apply_policies(resource, request, attributes, call.warnings)
        await self._configured.validate(request, attributes, answers)

    def check(
        self,
        call: Call,
        resource: ResourceType,
        operation: Operation,
        new: Document,
        old: Document | None = None,
    ) -> None:
        """Apply the policies to a write for which no webhook is called: a scale, a binding.

        Args:
            call: the request.
            resource: that its path names.
            operation: as in an AdmissionReview.
            new: what is sent, with apiVersion and kind; any other value may have any type.
            old: what it replaces.

        Raises:
            StatusError: A policy denies it.
        """
        if not self._has_policies(resource):
            return
        new, old = with_metadata(new), None if old is None else with_metadata(old)
        answers = AdmissionAnswers()
        answers.dry_run = bool(call.query.get("dryRun"))
        proposal = Proposal("validating", operation, new, old, None)
        request = admission_request(call, resource, answers, proposal)
        namespace = call.target.namespace or ""
        name = call.target.name or request["name"]
        request |= {"name": name, "namespace": namespace}
        group, _, version = str(new.get("apiVersion") or "").rpartition("/")
        kind = {"group": group, "version": version, "kind": str(new.get("kind") or "")}
        request |= {"kind": kind, "requestKind": kind}
        attributes = self._attributes(call, resource, proposal, namespace)
        self._apply_policies(resource, request, attributes, call.warnings)

    def _apply_policies(
        self,
        resource: ResourceType,
        request: Document,
        attributes: RequestAttributes,
        warnings: list[str],
        converted: Mapping[str, Document] = MappingProxyType({}),
    ) -> None:
        if not self._has_policies(resource):
            return
        reviewed = self._reviewed(resource, request, attributes)
        self._policies.check(reviewed._replace(converted=converted), warnings)

    # -- matching

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
            resource.conversion,
            f"{resource.plural}/{part}" if part else resource.plural,
            resource.namespaced,
            proposal.operation,
            namespace_labels,
            labels,
        )

    # -- calling

    async def _mutate(
        self,
        resource: ResourceType,
        request: Document,
        attributes: RequestAttributes,
        answers: AdmissionAnswers,
    ) -> Document | None:
        """Ask policies, and call the mutating webhooks in turn; return the object that they leave.

        Those with ``reinvocationPolicy: IfNeeded`` are called once more if others have changed the
        object after them.
        """
        seen: list[tuple[Webhook, Document | None]] = []
        reviewed = None
        if request["object"] is not None and self._has_policies(resource):
            reviewed = self._reviewed(resource, request, attributes)
            policies = self._policies.mutate(reviewed)
        for webhook in self._configured.of("mutating") if _has_webhooks(resource) else ():
            answered = await self._configured.mutate(webhook, request, attributes, answers)
            if answered and webhook.spec.get("reinvocationPolicy") == "IfNeeded":
                seen.append((webhook, request["object"]))
        if reviewed is not None:
            self._policies.mutate_again(policies, reviewed)
        for webhook, left in seen:
            if request["object"] != left:
                await self._configured.mutate(webhook, request, attributes, answers)
        document: Document | None = request["object"]
        return document


def _has_webhooks(resource: ResourceType) -> bool:
    """Return whether webhooks are called for a resource.

    None is for configurations of admission: a broken one could never be repaired.
    """
    return resource.group != GROUP
