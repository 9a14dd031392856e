"""ValidatingAdmissionPolicies: which apply to a request, and what they decide.

They are evaluated here, in the process, by CEL. Semantics and messages:
``k8s.io/apiserver/pkg/admission/plugin/policy`` (``generic`` and ``validating``).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from traincrew.local.apiserver.authorization import Attributes
from traincrew.local.apiserver.cel.admission import namespace_value, request_value
from traincrew.local.apiserver.cel.authorizing import Access, Decision
from traincrew.local.apiserver.kinds.admissionregistration.expressions import compiled
from traincrew.local.apiserver.kinds.admissionregistration.identifiers import BINDINGS, POLICIES
from traincrew.local.apiserver.reads.representation import convert
from traincrew.local.apiserver.values.errors import StatusError, forbidden
from traincrew.local.apiserver.values.selectors import SelectorError, from_label_selector

from .decisions import Denial, PolicyEvaluation
from .matching import in_version, policy_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from traincrew.local.apiserver.authorization import Authorizer
    from traincrew.local.apiserver.kinds.admissionregistration.expressions import Expressions
    from traincrew.local.apiserver.registry import Registry, ResourceType
    from traincrew.local.apiserver.storage import Entry, Storage
    from traincrew.local.apiserver.values.documents import Document

    from .matching import Reviewed

__all__ = ["Policies"]

REQUEST_BUDGET = 1_000_000
"""What all policies may cost for one request; there is no such limit upstream."""

_EVALUATION_COST = 500
"""What it costs besides to evaluate a policy with one parameter."""

_MAX_COMPILED = 256
"""Policies that are kept compiled."""

_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, "Invalid": 422}


class _ConfigurationError(Exception):
    """A policy or binding cannot be applied; the message says why."""


class _Denied(NamedTuple):
    """A denial, and by whom; no binding if the policy itself is wrong."""

    denial: Denial
    policy: str
    binding: str = ""

    def message(self) -> str:
        by = f"ValidatingAdmissionPolicy '{self.policy}'"
        by += f" with binding '{self.binding}'" if self.binding else ""
        return f"{by} denied request: {self.denial.message}"


class Policies:
    """The admission policies of a cluster.

    Args:
        storage: Holds policies, bindings and parameters.
        registry: The served resources.
        authorizer: Answers what expressions ask about rights.
    """

    def __init__(self, storage: Storage, registry: Registry, authorizer: Authorizer) -> None:
        self._storage = storage
        self._registry = registry
        self._authorizer = authorizer
        self._compiled: dict[str, tuple[int, Expressions]] = {}

    def check(self, reviewed: Reviewed, warnings: list[str]) -> None:
        """Apply the policies to a request.

        Args:
            reviewed: the request.
            warnings: those of actions Warn are added.

        Raises:
            StatusError: A policy denies it.
        """
        bindings: dict[str, list[Entry]] = {}
        for entry in self._storage.scan(BINDINGS):
            bindings.setdefault(entry.obj["spec"]["policyName"], []).append(entry)
        budget = [float(REQUEST_BUDGET)]
        denied: list[_Denied] = []
        for policy in self._storage.scan(POLICIES):
            bound = bindings.get(policy.key[1])
            if bound:
                denied += self._decide(policy, bound, reviewed, warnings, budget)
        if denied:
            raise _refusal(denied[0], reviewed)

    def _decide(
        self,
        policy: Entry,
        bindings: list[Entry],
        reviewed: Reviewed,
        warnings: list[str],
        budget: list[float],
    ) -> Iterator[_Denied]:
        spec, name = policy.obj["spec"], policy.key[1]
        ignored = spec.get("failurePolicy") == "Ignore"
        try:
            if not (version := _version(spec.get("matchConstraints") or {}, reviewed)):
                return
            self._check_param_kind(spec.get("paramKind"))
        except (_ConfigurationError, SelectorError) as error:
            if not ignored:
                yield _Denied(Denial(f"failed to configure policy: {error}"), name)
            return
        expressions = self._expressions(policy)
        for binding in bindings:
            bound = binding.obj["spec"]
            try:
                if not _version(bound.get("matchResources") or {}, reviewed):
                    continue
                params = self._params(spec, bound, reviewed.request["namespace"])
            except (_ConfigurationError, SelectorError) as error:
                if not ignored:
                    denial = Denial(f"failed to configure binding: {error}")
                    yield _Denied(denial, name, binding.key[1])
                continue
            actions = bound.get("validationActions") or ()
            values = self._values(reviewed, version)
            for param in params:
                budget[0] -= _EVALUATION_COST
                evaluation = PolicyEvaluation(
                    spec, expressions, values | {"params": param()}, budget
                )
                for denial in evaluation.validate():
                    if "Deny" in actions:
                        yield _Denied(denial, name, binding.key[1])
                    if "Warn" in actions:
                        _warn(warnings, name, binding.key[1], denial)
                for denial in evaluation.annotate():
                    yield _Denied(denial, name, binding.key[1])

    def _expressions(self, policy: Entry) -> Expressions:
        name = policy.key[1]
        known = self._compiled.get(name)
        if known is None or known[0] != policy.revision:
            if len(self._compiled) >= _MAX_COMPILED:
                self._compiled.clear()
            known = self._compiled[name] = (policy.revision, compiled(policy.obj["spec"]))
        return known[1]

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
        return [partial(_shown, resource, entry) for entry in found]

    # -- variables

    def _values(self, reviewed: Reviewed, version: str) -> dict[str, Any]:
        request = in_version(reviewed.request, version)
        user = request["userInfo"]

        def ask(access: Access) -> Decision:
            who = user if access.account is None else _service_account(*access.account)
            action = Attributes(
                access.verb,
                access.group,
                access.resource,
                access.subresource,
                access.namespace,
                access.name,
                access.path,
                is_resource=not access.path,
            )
            return Decision(*self._authorizer.authorize(who, action))

        resource = request["requestResource"]
        own = Access(
            ask,
            group=resource["group"],
            resource=resource["resource"],
            subresource=request.get("requestSubResource", ""),
            namespace=request["namespace"],
            name=request["name"] or "",
        )
        return {
            "object": request["object"],
            "oldObject": request["oldObject"],
            "request": request_value(request),
            "namespaceObject": namespace_value(reviewed.namespace),
            "authorizer": Access(ask),
            "authorizer.requestResource": own,
        }


def _shown(resource: ResourceType, entry: Entry) -> Document:
    """Return a stored object as its resource shows it."""
    return convert(resource, entry).obj


def _version(matching: Document, reviewed: Reviewed) -> str:
    return policy_version(matching, reviewed.attributes, reviewed.request["name"] or "")


def _service_account(namespace: str, name: str) -> Document:
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    return {
        "username": f"system:serviceaccount:{namespace}:{name}",
        "groups": [*groups, "system:authenticated"],
    }


def _warn(warnings: list[str], policy: str, binding: str, denial: Denial) -> None:
    text = f"Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{binding}'"
    if (text := f"{text}: {denial.message}") not in warnings:  # a verb may be tried again
        warnings.append(text)


def _refusal(denied: _Denied, reviewed: Reviewed) -> StatusError:
    """Return the error for a denial (``admission.NewForbidden``, with another code and reason)."""
    resource = reviewed.request["requestResource"]
    shown = reviewed.request["object"] or {}
    metadata = shown.get("metadata") or {}
    name = reviewed.request["name"] or metadata.get("generateName") or "Unknown!"
    message = denied.message()
    error = forbidden(resource["resource"], resource["group"], name, message)
    error.reason = denied.denial.reason
    error.code = _CODES.get(error.reason, 422)
    error.details["causes"] = [{"message": message}]
    return error
