"""Rules for the conversion webhook of a CustomResourceDefinition.

The paths are those of upstream's messages (``validateCustomResourceConversion``), which has the
fields of ``webhook`` in ``conversion`` itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from traincrew.local.apiserver.kinds.shared.fields import service_port
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field
from traincrew.local.apiserver.values.names import label_1035_fault, subdomain_fault

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["conversion_rules"]

_STRATEGIES = ("None", "Webhook")
_REVIEWS = ("v1", "v1beta1")
_HERE = "spec.conversion"
_CONFIG, _VERSIONS = f"{_HERE}.webhookClientConfig", f"{_HERE}.conversionReviewVersions"
_FORM = "; desired format: https://host[/path]"


def conversion_rules(found: list[Cause], conversion: Document, old: Document) -> None:
    """Validate ``spec.conversion``.

    Args:
        found: What is wrong is appended.
        conversion: The field.
        old: The stored one; empty for a new definition.
    """
    strategy = conversion.get("strategy", "None")
    webhook = field(conversion, "webhook")
    config, versions = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    if not strategy:
        found.append(why.required(f"{_HERE}.strategy"))
    elif strategy not in _STRATEGIES:
        found.append(why.not_supported(f"{_HERE}.strategy", strategy, _STRATEGIES))
    if strategy == "Webhook":
        if config is None:
            found.append(why.required(_CONFIG, "required when strategy is set to Webhook"))
        else:
            _client_config(found, config)
        before = field(old, "webhook").get("conversionReviewVersions") or []
        _review_versions(found, versions, recognized=not before or bool({*before} & {*_REVIEWS}))
        return
    detail = "should not be set when strategy is not set to Webhook"
    if config is not None:
        found.append(why.forbidden(_CONFIG, detail))
    if versions:
        found.append(why.forbidden(_VERSIONS, detail))


def _client_config(found: list[Cause], config: Document) -> None:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        found.append(why.required(_CONFIG, "exactly one of url or service is required"))
    elif url is not None:
        _url(found, url)
    else:
        _service(found, field(config, "service"))


def _url(found: list[Cause], url: str) -> None:
    here = f"{_CONFIG}.url"
    try:
        parts = urlsplit(url)
    except ValueError as error:
        found.append(why.required(here, f"url must be a valid URL: {error}{_FORM}"))
        return
    if parts.scheme != "https":
        detail = f"'https' is the only allowed URL scheme{_FORM}"
        found.append(why.invalid(here, parts.scheme, detail))
    user, _, host = parts.netloc.rpartition("@")
    if not host:
        found.append(why.invalid(here, host, f"host must be specified{_FORM}"))
    for value, what in (
        (user, "user information is"),
        (parts.fragment, "fragments are"),
        (parts.query, "query parameters are"),
    ):
        if value:
            found.append(why.invalid(here, value, f"{what} not permitted in the URL"))


def _service(found: list[Cause], service: Document) -> None:
    here = f"{_CONFIG}.service"
    missing = [name for name in ("name", "namespace") if not service.get(name)]
    found.extend(why.required(f"{here}.{name}") for name in missing)
    service_port(found, f"{here}.port", service.get("port", 443))
    path = service.get("path") or "/"
    if path == "/":
        return
    if path == "//":
        found.append(why.invalid(f"{here}.path", path, "segment[0] may not be empty"))
        return
    if not path.startswith("/"):
        found.append(why.invalid(f"{here}.path", path, "must start with a '/'"))
    for index, segment in enumerate(path[1:].removesuffix("/").split("/")):
        fault = subdomain_fault(segment)
        detail = f"segment[{index}]: {fault}" if segment else f"segment[{index}] may not be empty"
        if fault:
            found.append(why.invalid(f"{here}.path", path, detail))


def _review_versions(found: list[Cause], versions: list[str], *, recognized: bool) -> None:
    if not versions:
        found.append(why.required(_VERSIONS))
        return
    seen: set[str] = set()
    for index, version in enumerate(versions):
        here = f"{_VERSIONS}[{index}]"
        if version in seen:
            found.append(why.invalid(here, version, "duplicate version"))
        elif fault := label_1035_fault(version):
            found.append(why.invalid(here, version, fault))
        seen.add(version)
    if recognized and not seen & {*_REVIEWS}:
        detail = f"must include at least one of {', '.join(_REVIEWS)}"
        found.append(why.invalid(_VERSIONS, versions, detail))
