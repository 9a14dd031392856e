"""Which webhooks match a request: rules, selectors and match conditions."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from traincrew.local.apiserver.values.selectors import SelectorError, from_label_selector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traincrew.local.apiserver.requests.conversions import WebhookConversion
    from traincrew.local.apiserver.values.documents import Document

__all__ = [
    "MATCH_ERRORS",
    "RequestAttributes",
    "Reviewed",
    "Webhook",
    "conditions_hold",
    "matching_version",
    "policy_version",
]


class Webhook(NamedTuple):
    """One webhook of a configuration.

    Attributes:
        mutating: Whether it may change objects.
        configuration: Name of its webhook configuration.
        spec: As stored, with defaults.
    """

    mutating: bool
    configuration: str
    spec: Document

    @property
    def name(self) -> str:
        """The name of the webhook, as in messages."""
        return str(self.spec["name"])

    @property
    def ignores_failure(self) -> bool:
        """Whether the failure policy is Ignore: the write continues when the call fails."""
        return self.spec.get("failurePolicy") == "Ignore"


class RequestAttributes(NamedTuple):
    """The attributes of a request that rules and selectors match.

    Attributes:
        group: API group of the resource.
        version: Version of the request.
        versions: All served versions of a custom resource.
        conversion: The webhook that converts its objects; None if versions differ only in name.
        resource: The resource with its subresource: ``pods/status``.
        namespaced: Whether the resource is namespaced.
        operation: ``CREATE``, ``UPDATE``, ``DELETE`` or ``CONNECT``.
        namespace_labels: Labels of the object's namespace, or of the object if it is a namespace;
            None for other cluster-scoped objects.
        labels: Labels of the object, new and old.
    """

    group: str
    version: str
    versions: frozenset[str]
    conversion: WebhookConversion | None
    resource: str
    namespaced: bool
    operation: str
    namespace_labels: Mapping[str, str] | None
    labels: list[Mapping[str, str]]


class Reviewed(NamedTuple):
    """A request as policies see it.

    Attributes:
        request: as in an AdmissionReview, with its objects.
        attributes: what rules and selectors match.
        namespace: the Namespace of the object, if it is in one.
        converted: the request by version, where a webhook converts the objects.
    """

    request: Document
    attributes: RequestAttributes
    namespace: Document | None
    converted: Mapping[str, Document] = MappingProxyType({})

    def in_version(self, version: str) -> Document:
        """Return the request with its objects in a version that the policies match."""
        return self.converted.get(version) or in_version(self.request, version)


def in_version(request: Document, version: str) -> Document:
    """Return a request with its objects in another version.

    For custom resources whose versions differ only in their name.
    """
    if version == request["kind"]["version"]:
        return request
    shown = dict(request)
    group = request["kind"]["group"]
    for part in ("kind", "resource"):
        shown[part] = {**request[part], "version": version}
    for part in ("object", "oldObject"):
        if shown[part] is not None:
            shown[part] = {**shown[part], "apiVersion": f"{group}/{version}"}
    return shown


def matching_version(webhook: Webhook, attributes: RequestAttributes) -> str:
    """Match the rules and selectors of a webhook against a request.

    Returns:
        The version in which to send the object to the webhook; empty if it does not match.

    Raises:
        SelectorError: A selector is invalid.
    """
    spec = webhook.spec
    version = _matched_version(spec, spec.get("rules"), attributes)
    return version if version and _selected(spec, attributes) else ""


def policy_version(matching: Document, attributes: RequestAttributes, name: str) -> str:
    """Match what a policy or its binding restricts requests to.

    Args:
        matching: ``matchConstraints`` or ``matchResources``; without rules it matches everything
            that its selectors match.
        attributes: of the request.
        name: of the object.

    Returns:
        The version in which the policy sees the object; empty if it does not match.

    Raises:
        SelectorError: A selector is invalid.
    """

    def matched(key: str) -> str:
        named = [
            rule
            for rule in matching.get(key) or ()
            if not rule.get("resourceNames") or name in rule["resourceNames"]
        ]
        return _matched_version(matching, named, attributes)

    if not _selected(matching, attributes) or matched("excludeResourceRules"):
        return ""
    return matched("resourceRules") if matching.get("resourceRules") else attributes.version


def _matched_version(
    spec: Document, rules: list[Document] | None, attributes: RequestAttributes
) -> str:
    """Return the first version of the object that a rule matches; empty if none does."""
    equivalent = spec.get("matchPolicy", "Equivalent") == "Equivalent"
    others = sorted(attributes.versions - {attributes.version}) if equivalent else []
    fitting = [rule for rule in rules or () if _rule_matches(rule, attributes)]
    versions = (
        version
        for version in (attributes.version, *others)
        if any(_contains(rule.get("apiVersions"), version) for rule in fitting)
    )
    return next(versions, "")


def _selected(spec: Document, attributes: RequestAttributes) -> bool:
    """Return whether both selectors match."""
    namespaces = from_label_selector(spec.get("namespaceSelector") or {})
    if attributes.namespace_labels is not None and not namespaces(attributes.namespace_labels):
        return False
    objects = from_label_selector(spec.get("objectSelector") or {})
    return any(objects(labels) for labels in attributes.labels)


def _rule_matches(rule: Document, attributes: RequestAttributes) -> bool:
    """Return whether a rule matches the request, whatever the version."""
    scope = rule.get("scope") or "*"
    return (
        _contains(rule.get("operations"), attributes.operation)
        and _contains(rule.get("apiGroups"), attributes.group)
        and any(
            _pattern_matches(str(each), attributes.resource) for each in rule.get("resources") or ()
        )
        and (scope == "*" or (scope == "Namespaced") == attributes.namespaced)
    )


def _contains(values: list[str] | None, wanted: str) -> bool:
    return values is not None and ("*" in values or wanted in values)


def _pattern_matches(pattern: str, resource: str) -> bool:
    """Return whether ``pods``, ``pods/*``, ``*/status``, ``*`` or ``*/*`` matches a resource."""
    plural, _, subresource = resource.partition("/")
    wanted, _, part = pattern.partition("/")
    return wanted in {"*", plural} and part in {"*", subresource}


def conditions_hold(webhook: Webhook, variables: Document) -> bool:
    """Return whether all match conditions (CEL) are true; a false one takes precedence over errors.

    Raises:
        ValueError: One cannot be evaluated, and none is false.
    """
    failed = ""
    for condition in webhook.spec.get("matchConditions") or ():
        from traincrew.local.apiserver.cel import evaluate

        try:
            if evaluate(condition["expression"], variables) is not True:
                return False
        except ValueError as error:
            failed = failed or f"{condition.get('name')}: {error}"
    if failed:
        raise ValueError(failed)
    return True


MATCH_ERRORS = (SelectorError, ValueError)
"""The exceptions that `matching_version` and `conditions_hold` raise."""
