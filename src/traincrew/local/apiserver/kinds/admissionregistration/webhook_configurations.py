"""MutatingWebhookConfigurations and ValidatingWebhookConfigurations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import age_of, name_of
from traincrew.local.apiserver.kinds.shared.webhookclients import webhook_service, webhook_url
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field, items

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a configuration of webhooks."""
    return [name_of(obj), len(obj.get("webhooks") or ()), age_of(obj, now)]


def _default(obj: Document) -> None:
    for webhook in items(obj, "webhooks"):
        webhook.setdefault("failurePolicy", "Fail")
        webhook.setdefault("matchPolicy", "Equivalent")
        webhook.setdefault("namespaceSelector", {})
        webhook.setdefault("objectSelector", {})
        webhook.setdefault("timeoutSeconds", 10)
        if obj.get("kind") == "MutatingWebhookConfiguration":
            webhook.setdefault("reinvocationPolicy", "Never")
        for rule in items(webhook, "rules"):
            rule.setdefault("scope", "*")
        service = field(webhook, "clientConfig").get("service")
        if type(service) is dict:
            service.setdefault("port", 443)


_MIN_SECONDS, _MAX_SECONDS = 1, 30

_VERSIONS = {"v1", "v1beta1"}


def _validate(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Validate a MutatingWebhookConfiguration or ValidatingWebhookConfiguration."""
    names: set[str] = set()
    for index, webhook in enumerate(items(obj, "webhooks")):
        here = f"webhooks[{index}]"
        if webhook["name"] in names:
            found.append(why.duplicate(f"{here}.name", webhook["name"]))
        names.add(webhook["name"])
        config = field(webhook, "clientConfig")
        if bool(config.get("url")) == bool(config.get("service")):
            detail = "exactly one of url or service is required"
            found.append(why.required(f"{here}.clientConfig", detail))
        elif config.get("url"):
            webhook_url(found, config["url"], f"{here}.clientConfig.url")
        else:
            webhook_service(found, config["service"], f"{here}.clientConfig.service")
        seconds = webhook.get("timeoutSeconds", _MIN_SECONDS)
        if not _MIN_SECONDS <= seconds <= _MAX_SECONDS:
            detail = "the timeout value must be between 1 and 30 seconds"
            found.append(why.invalid(f"{here}.timeoutSeconds", seconds, detail))
        versions = webhook.get("admissionReviewVersions") or []
        if versions and not _VERSIONS & set(versions):
            detail = "must include at least one of v1, v1beta1"
            found.append(why.invalid(f"{here}.admissionReviewVersions", versions, detail))
        for number, condition in enumerate(items(webhook, "matchConditions")):
            from traincrew.local.apiserver.cel import compilation_fault

            path = f"{here}.matchConditions[{number}]"
            source = condition.get("expression", "")
            if not source.strip():
                found.append(why.required(f"{path}.expression"))
            elif fault := compilation_fault(source):
                found.append(why.invalid(f"{path}.expression", source, fault))
            if not condition.get("name"):
                found.append(why.required(f"{path}.name"))


STRATEGY = Strategy(
    columns="Name Webhooks Age",
    row=_row,
    default=_default,
    validate=_validate,
)
