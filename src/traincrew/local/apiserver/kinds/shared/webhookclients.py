"""Where webhooks are: rules that configurations and definitions share.

Upstream: ``apiserver/pkg/util/webhook/validation.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from traincrew.local.apiserver.kinds.shared.fields import port_number
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.names import subdomain_fault

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["webhook_service", "webhook_url"]

_FORM = "; desired format: https://host[/path]"


def webhook_url(found: list[Cause], url: str, path: str) -> None:
    """Validate the URL of a webhook."""
    try:
        parts = urlsplit(url)
        host, user, port = parts.hostname, parts.username or "", parts.port
    except ValueError as error:
        found.append(why.required(path, f"url must be a valid URL: {error}{_FORM}"))
        return
    if port == 0 or not url.isprintable():
        found.append(why.required(path, f"url must be a valid URL: {why.quote(url)}{_FORM}"))
        return
    if parts.scheme != "https":
        detail = f"'https' is the only allowed URL scheme{_FORM}"
        found.append(why.invalid(path, parts.scheme, detail))
    if not host:
        found.append(why.invalid(path, parts.netloc, f"host must be specified{_FORM}"))
    for value, what in (
        (user, "user information is"),
        (parts.fragment, "fragments are"),
        (parts.query, "query parameters are"),
    ):
        if value:
            found.append(why.invalid(path, value, f"{what} not permitted in the URL"))


def webhook_service(found: list[Cause], service: Document, path: str) -> None:
    """Validate the reference of a webhook to a Service."""
    found.extend(
        why.required(f"{path}.{key}") for key in ("name", "namespace") if not service.get(key)
    )
    port_number(found, f"{path}.port", service.get("port", 443))
    url, here = service.get("path") or "/", f"{path}.path"
    if url == "/":
        return
    if url == "//":
        found.append(why.invalid(here, url, "segment[0] may not be empty"))
        return
    if not url.startswith("/"):
        found.append(why.invalid(here, url, "must start with a '/'"))
    for index, step in enumerate(url[1:].removesuffix("/").split("/")):
        if not step:
            found.append(why.invalid(here, url, f"segment[{index}] may not be empty"))
        elif fault := subdomain_fault(step):
            found.append(why.invalid(here, url, f"segment[{index}]: {fault}"))
