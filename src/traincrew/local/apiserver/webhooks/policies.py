"""Admission policies: what those that apply to a request decide or change.

They are evaluated here, in the process, by CEL. Semantics and messages:
``k8s.io/apiserver/pkg/admission/plugin/policy`` (``validating`` and ``mutating``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from traincrew.local.apiserver.authorization import Attributes
from traincrew.local.apiserver.cel.admission import namespace_value, request_value
from traincrew.local.apiserver.cel.authorizing import Access, Decision
from traincrew.local.apiserver.kinds.admissionregistration.expressions import compiled
from traincrew.local.apiserver.kinds.admissionregistration.identifiers import (
    BINDINGS,
    MUTATING,
    MUTATING_BINDINGS,
    POLICIES,
)
from traincrew.local.apiserver.values.errors import StatusError, forbidden

from .decisions import Denial, PolicyEvaluation
from .mutations import mutated
from .policymatching import Denied, Invocation, PolicyMatcher

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.local.apiserver.authorization import Authorizer
    from traincrew.local.apiserver.kinds.admissionregistration.expressions import Expressions
    from traincrew.local.apiserver.registry import Registry
    from traincrew.local.apiserver.storage import Entry, Key, Storage
    from traincrew.local.apiserver.values.documents import Document

    from .matching import RequestAttributes, Reviewed

__all__ = ["Mutated", "Policies"]

REQUEST_BUDGET = 1_000_000
"""What all policies may cost for one request; there is no such limit upstream."""

_EVALUATION_COST = 500
"""What it costs besides to evaluate a policy with one parameter."""

_MAX_COMPILED = 256
"""Policies that are kept compiled."""

_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, "Invalid": 422}


class Mutated(NamedTuple):
    """A mutating policy that wants to be asked again, and the object as it has left it."""

    invocation: Invocation
    left: Document


class Policies:
    """The admission policies of a cluster.

    Args:
        storage: Holds policies, bindings and parameters.
        registry: The served resources.
        authorizer: Answers what expressions ask about rights.
    """

    def __init__(self, storage: Storage, registry: Registry, authorizer: Authorizer) -> None:
        self._registry = registry
        self._matcher = PolicyMatcher(storage, registry)
        self._authorizer = authorizer
        self._compiled: dict[Key, tuple[int, Expressions]] = {}

    def versions(self, attributes: RequestAttributes, name: str) -> set[str]:
        """Return the versions in which policies see the objects of a request."""
        return self._matcher.versions(attributes, name)

    def check(self, reviewed: Reviewed, warnings: list[str]) -> None:
        """Apply the validating policies to a request.

        Args:
            reviewed: the request.
            warnings: those of actions Warn are added.

        Raises:
            StatusError: A policy denies it.
        """
        budget = [float(REQUEST_BUDGET)]
        denied: list[Denied] = []
        for found in self._matcher.applying(POLICIES, BINDINGS, reviewed):
            if isinstance(found, Denied):
                denied.append(found)
            else:
                denied += self._validate(found, reviewed, warnings, budget)
        if denied:
            raise _refusal(denied[0], reviewed)

    def mutate(self, reviewed: Reviewed) -> list[Mutated]:
        """Apply the mutating policies to the object of a request, in place of it.

        Returns:
            Those to ask again, by `mutate_again`.

        Raises:
            StatusError: One fails, and its failure policy is Fail.
        """
        budget = [float(REQUEST_BUDGET)]
        failed: list[Denied] = []
        again = []
        for found in self._matcher.applying(MUTATING, MUTATING_BINDINGS, reviewed):
            if isinstance(found, Denied):
                failed.append(found)
                continue
            failed += self._mutate(found, reviewed, budget)
            if found.policy.obj["spec"].get("reinvocationPolicy") == "IfNeeded":
                again.append(Mutated(found, reviewed.request["object"]))
        if failed:
            raise _failure(failed, reviewed)
        return again

    def mutate_again(self, before: list[Mutated], reviewed: Reviewed) -> None:
        """Apply mutating policies once more if others have changed the object after them.

        Raises:
            StatusError: One fails, and its failure policy is Fail.
        """
        budget = [float(REQUEST_BUDGET)]
        failed: list[Denied] = []
        for each in before:
            if reviewed.request["object"] != each.left:
                failed += self._mutate(each.invocation, reviewed, budget)
        if failed:
            raise _failure(failed, reviewed)

    def _validate(
        self,
        invocation: Invocation,
        reviewed: Reviewed,
        warnings: list[str],
        budget: list[float],
    ) -> Iterator[Denied]:
        policy, binding = invocation.policy.key[1], invocation.binding.key[1]
        spec, actions = invocation.policy.obj["spec"], invocation.binding.obj["spec"]
        budget[0] -= _EVALUATION_COST
        values = self._values(reviewed, invocation)
        evaluation = PolicyEvaluation(spec, self._expressions(invocation.policy), values, budget)
        for denial in evaluation.validate():
            if "Deny" in (actions.get("validationActions") or ()):
                yield Denied(denial, policy, binding)
            if "Warn" in (actions.get("validationActions") or ()):
                _warn(warnings, policy, binding, denial)
        for denial in evaluation.annotate():
            yield Denied(denial, policy, binding)

    def _mutate(
        self, invocation: Invocation, reviewed: Reviewed, budget: list[float]
    ) -> list[Denied]:
        """Replace the object of the request; return what failed."""
        if reviewed.request["object"] is None:
            return []
        policy, binding = invocation.policy.key[1], invocation.binding.key[1]
        spec = invocation.policy.obj["spec"]
        attributes = reviewed.attributes
        if attributes.conversion is not None and invocation.version != attributes.version:
            if spec.get("failurePolicy") == "Ignore":
                return []
            text = f"no webhook converts the object to {invocation.version} for it"
            return [Denied(Denial(text), policy, binding)]
        budget[0] -= _EVALUATION_COST
        values = self._values(reviewed, invocation)
        seen = reviewed.request["requestResource"]
        resource = self._registry.find(seen["group"], invocation.version, seen["resource"])
        assert resource is not None
        expressions = self._expressions(invocation.policy)
        document, faults = mutated(spec, expressions, values, resource.schema.node, budget)
        own = reviewed.request["object"]["apiVersion"]
        reviewed.request["object"] = {**document, "apiVersion": own}
        if spec.get("failurePolicy") == "Ignore":
            return []
        return [Denied(Denial(text), policy, binding) for text in faults]

    def _expressions(self, policy: Entry) -> Expressions:
        key = (str(policy.obj.get("kind")), policy.key[1])
        known = self._compiled.get(key)
        if known is None or known[0] != policy.revision:
            if len(self._compiled) >= _MAX_COMPILED:
                self._compiled.clear()
            known = self._compiled[key] = (policy.revision, compiled(policy.obj["spec"]))
        return known[1]

    # -- variables

    def _values(self, reviewed: Reviewed, invocation: Invocation) -> dict[str, Any]:
        request = reviewed.in_version(invocation.version)
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
            "params": invocation.param(),
            "authorizer": Access(ask),
            "authorizer.requestResource": own,
        }


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


def _refusal(denied: Denied, reviewed: Reviewed) -> StatusError:
    """Return the error for a denial (``admission.NewForbidden``, with another code and reason)."""
    resource = reviewed.request["requestResource"]
    shown = reviewed.request["object"] or {}
    metadata = shown.get("metadata") or {}
    name = reviewed.request["name"] or metadata.get("generateName") or "Unknown!"
    message = denied.message("ValidatingAdmissionPolicy")
    error = forbidden(resource["resource"], resource["group"], name, message)
    error.reason = denied.denial.reason or "Invalid"
    error.code = _CODES.get(error.reason, 422)
    error.details["causes"] = [{"message": message}]
    return error


def _failure(failed: list[Denied], reviewed: Reviewed) -> StatusError:
    """Return the error of mutating policies; upstream: the end of ``policy_dispatcher.go``."""
    error = _refusal(failed[0], reviewed)
    messages = [each.message("policy") for each in failed]
    error.code, error.message = 403, messages[0]
    error.reason = failed[0].denial.reason or "Forbidden"
    error.details["causes"] = [{"message": message} for message in messages]
    return error
