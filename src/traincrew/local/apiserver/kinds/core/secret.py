"""Secrets."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import age_of, name_of
from traincrew.local.apiserver.kinds.shared.fields import immutable
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field
from traincrew.local.apiserver.values.selectors import FieldLabels

from .data import (
    SIZE_LIMIT,
    changes_of_immutable,
    decoded_values,
    key_rules,
    refuse_change_of_immutable,
)

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a Secret."""
    return [name_of(obj), obj.get("type", ""), len(field(obj, "data")), age_of(obj, now)]


def _default(obj: Document) -> None:
    if not obj.get("type"):
        obj["type"] = "Opaque"
    texts = obj.get("stringData")
    if type(texts) is not dict or not all(type(text) is str for text in texts.values()):
        return
    # Write-only: the API only returns data.
    del obj["stringData"]
    data = obj.setdefault("data", {})
    if type(data) is dict:
        for key, text in texts.items():
            data[key] = base64.b64encode(text.encode()).decode()


_SECRET_KEYS: dict[str, tuple[str, ...]] = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}

_SERVICE_ACCOUNT_NAME = "kubernetes.io/service-account.name"


def _validate(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate a Secret."""
    data = field(obj, "data")
    key_rules(found, data, "data")
    decoded = decoded_values(found, data, "data")
    if sum(map(len, decoded.values())) > SIZE_LIMIT:
        found.append(why.too_long("data", SIZE_LIMIT))
    kind = obj.get("type", "Opaque")
    found.extend(
        why.required(f"data[{key}]") for key in _SECRET_KEYS.get(kind, ()) if key not in data
    )
    if kind == "kubernetes.io/service-account-token":
        if not field(obj, "metadata", "annotations").get(_SERVICE_ACCOUNT_NAME):
            found.append(why.required(f"metadata.annotations[{_SERVICE_ACCOUNT_NAME}]"))
    elif kind == "kubernetes.io/basic-auth":
        if "username" not in data and "password" not in data:
            found += [why.required("data[username]"), why.required("data[password]")]
    elif kind.startswith("kubernetes.io/dockerc"):
        (key,) = _SECRET_KEYS[kind]
        _json_object(found, decoded.get(key), f"data[{key}]")
    if old is not None:
        immutable(found, "type", obj.get("type"), old.get("type"))
    found += changes_of_immutable(obj, old)


def _json_object(found: list[Cause], content: bytes | None, path: str) -> None:
    if content is None:
        return
    try:
        if type(json.loads(content)) is dict:
            return
        detail = "must be a JSON object"
    except ValueError as error:
        detail = str(error)
    except RecursionError:
        detail = "exceeded max depth"
    found.append(why.invalid(path, "<secret contents redacted>", detail))


STRATEGY = Strategy(
    selectable=FieldLabels.of("type"),
    columns="Name Type Data Age",
    row=_row,
    default=_default,
    validate=_validate,
    prepare_update=refuse_change_of_immutable,
)
