"""Which admission policies apply to a request, and with which parameters.

Semantics and messages: ``k8s.io/apiserver/pkg/admission/plugin/policy/generic``.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from traincrew.local.apiserver.kinds.admissionregistration.identifiers import BINDINGS, POLICIES
from traincrew.local.apiserver.reads.versions import convert
from traincrew.local.apiserver.values.selectors import SelectorError, from_label_selector

from .decisions import Denial
from .matching import policy_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from traincrew.local.apiserver.registry import Registry, ResourceType
    from traincrew.local.apiserver.storage import Entry, Storage
    from traincrew.local.apiserver.values.documents import Document

    from .matching import RequestAttributes, Reviewed

__all__ = ["Denied", "Invocation", "PolicyMatcher"]


class _ConfigurationError(Exception):
    """A policy or binding cannot be applied; the message says why."""


class Denied(NamedTuple):
    """A denial, and by whom; no binding if the policy itself is wrong."""

    denial: Denial
    policy: str
    binding: str = ""

    def message(self, kind: str) -> str:
        """Return the denial as upstream words it; `kind` is what denies."""
        by = f"{kind} '{self.policy}'"
        by += f" with binding '{self.binding}'" if self.binding else ""
        return f"{by} denied request: {self.denial.message}"


class Invocation(NamedTuple):
    """A policy that applies to a request, with one parameter.

    Attributes:
        version: in which it sees the object.
    """

    policy: Entry
    binding: Entry
    version: str
    param: Callable[[], Document | None]


class PolicyMatcher:
    """Finds the policies that apply to requests.

    Args:
        storage: Holds policies, bindings and parameters.
        registry: The served resources.
    """

    def __init__(self, storage: Storage, registry: Registry) -> None:
        self._storage = storage
        self._registry = registry

    def versions(self, attributes: RequestAttributes, name: str) -> set[str]:
        """Return the versions in which validating policies see the objects of a request."""
        found, bound = set(), self._bound(BINDINGS)
        for policy in self._storage.scan(POLICIES):
            if policy.key[1] not in bound:
                continue
            with suppress(SelectorError):
                constraints = policy.obj["spec"].get("matchConstraints") or {}
                found.add(policy_version(constraints, attributes, name))
        return found - {""}

    def applying(
        self, policies: str, bindings: str, reviewed: Reviewed
    ) -> Iterator[Invocation | Denied]:
        """Yield the policies that apply, and what is wrong with others that must not be ignored."""
        bound = self._bound(bindings)
        for policy in self._storage.scan(policies):
            spec, name = policy.obj["spec"], policy.key[1]
            if name not in bound:
                continue
            ignored = spec.get("failurePolicy") == "Ignore"
            try:
                if not (version := _version(spec.get("matchConstraints") or {}, reviewed)):
                    continue
                self._check_param_kind(spec.get("paramKind"))
            except (_ConfigurationError, SelectorError) as error:
                if not ignored:
                    yield Denied(Denial(f"failed to configure policy: {error}", ""), name)
                continue
            for binding in bound[name]:
                try:
                    if not _version(binding.obj["spec"].get("matchResources") or {}, reviewed):
                        continue
                    namespace = reviewed.request["namespace"]
                    params = self._params(spec, binding.obj["spec"], namespace)
                except (_ConfigurationError, SelectorError) as error:
                    if not ignored:
                        denial = Denial(f"failed to configure binding: {error}", "")
                        yield Denied(denial, name, binding.key[1])
                    continue
                for param in params:
                    yield Invocation(policy, binding, version, param)

    def _bound(self, bindings: str) -> dict[str, list[Entry]]:
        """Return the bindings by the policies that they name."""
        bound: dict[str, list[Entry]] = {}
        for entry in self._storage.scan(bindings):
            bound.setdefault(entry.obj["spec"]["policyName"], []).append(entry)
        return bound

    # -- parameters

    def _param_resource(self, kind: Document) -> ResourceType | None:
        group, _, version = str(kind.get("apiVersion", "")).rpartition("/")
        found = self._registry.by_kind(group, str(kind.get("kind", "")))
        return next((each for each in found if each.version == version), None)

    def _check_param_kind(self, kind: Document | None) -> None:
        if kind is None or self._param_resource(kind) is not None:
            return
        group, _, version = kind["apiVersion"].rpartition("/")
        shown = f"{group}/{version}, Kind={kind['kind']}"
        raise _ConfigurationError(f"failed to find resource referenced by paramKind: '{shown}'")

    def _params(
        self, spec: Document, bound: Document, namespace: str
    ) -> Sequence[Callable[[], Document | None]]:
        """Return what returns the parameters to evaluate a policy with; one None if it has none.

        Semantics: ``CollectParams`` of ``policy_dispatcher.go``.
        """
        kind, reference = spec.get("paramKind"), bound.get("paramRef")
        if kind is None or reference is None:
            return [lambda: None]
        resource = self._param_resource(kind)
        assert resource is not None
        where = ""
        if resource.namespaced:
            where = reference.get("namespace") or namespace
            if not where:
                text = (
                    "cannot use namespaced paramRef in policy binding that matches cluster-scoped"
                    " resources"
                )
                raise _ConfigurationError(text)
        elif reference.get("namespace"):
            text = "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
            raise _ConfigurationError(text)
        if name := reference.get("name"):
            entry = self._storage.get(resource.identifier, (where, name))
            found = [] if entry is None else [entry]
        else:
            selects = from_label_selector(reference.get("selector") or {})
            found = [
                entry
                for entry in self._storage.scan(resource.identifier, where)
                if selects(entry.obj["metadata"].get("labels") or {})
            ]
        if not found and reference.get("parameterNotFoundAction") == "Deny":
            text = "no params found for policy binding with `Deny` parameterNotFoundAction"
            raise _ConfigurationError(text)
        if resource.conversion is not None and any(
            entry.obj["apiVersion"] != resource.api_version for entry in found
        ):
            text = f"params are not stored as {resource.api_version}, and no webhook converts them"
            raise _ConfigurationError(text)
        return [partial(_shown, resource, entry) for entry in found]


def _shown(resource: ResourceType, entry: Entry) -> Document:
    """Return a stored object as its resource shows it."""
    return convert(resource, entry).obj


def _version(matching: Document, reviewed: Reviewed) -> str:
    return policy_version(matching, reviewed.attributes, reviewed.request["name"] or "")
