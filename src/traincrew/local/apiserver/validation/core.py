"""Rules for the other kinds of the core group (``pkg/apis/core/validation``)."""

from __future__ import annotations

import base64
import binascii
import json
from typing import TYPE_CHECKING

from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.names import config_map_key_fault, qualified_name_fault

from .fields import immutable, port
from .network import address

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = [
    "binding",
    "config_map",
    "endpoints",
    "event",
    "namespace",
    "node",
    "secret",
]

_SIZE_LIMIT = 1024 * 1024
_IMMUTABLE = "field is immutable when `immutable` is set"


# --- configuration ------------------------------------------------------------------------------


def _immutable(
    found: list[Cause], obj: Document, old: Document | None, keys: tuple[str, ...]
) -> None:
    """Refuse changes of an object with ``immutable: true``."""
    if old is None or not old.get("immutable"):
        return
    if not obj.get("immutable"):
        found.append(why.forbidden("immutable", _IMMUTABLE))
    found.extend(
        why.forbidden(key, _IMMUTABLE)
        for key in keys
        if (obj.get(key) or {}) != (old.get(key) or {})
    )


def _key_rules(found: list[Cause], values: Document, path: str) -> None:
    for key in values:
        fault = config_map_key_fault(key)
        if fault:
            found.append(why.invalid(f"{path}[{key}]", key, fault))


def _decoded(found: list[Cause], values: Document, path: str) -> dict[str, bytes]:
    """Decode base64 values; refuse those that are not base64."""
    result: dict[str, bytes] = {}
    for key, text in values.items():
        try:
            result[key] = base64.b64decode(text, validate=True)
        except binascii.Error as error:
            detail = f"illegal base64 data: {error}"
            found.append(why.invalid(f"{path}[{key}]", "<value omitted>", detail))
    return result


def config_map(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate a ConfigMap."""
    data, binary = field(obj, "data"), field(obj, "binaryData")
    _key_rules(found, data, "data")
    _key_rules(found, binary, "binaryData")
    for key in data:
        if key in binary:
            detail = "duplicate of key present in binaryData"
            found.append(why.invalid(f"data[{key}]", key, detail))
    size = sum(len(value.encode()) for value in data.values())
    size += sum(len(value) for value in _decoded(found, binary, "binaryData").values())
    if size > _SIZE_LIMIT:
        found.append(why.too_long("[]", _SIZE_LIMIT))
    _immutable(found, obj, old, ("data", "binaryData"))


_SECRET_KEYS: dict[str, tuple[str, ...]] = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_SERVICE_ACCOUNT_NAME = "kubernetes.io/service-account.name"


def secret(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate a Secret."""
    data = field(obj, "data")
    _key_rules(found, data, "data")
    decoded = _decoded(found, data, "data")
    if sum(map(len, decoded.values())) > _SIZE_LIMIT:
        found.append(why.too_long("data", _SIZE_LIMIT))
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
    _immutable(found, obj, old, ("data",))


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


# --- endpoints ------------------------------------------------------------------------------------


def endpoints(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Validate an Endpoints object."""
    for index, subset in enumerate(items(obj, "subsets")):
        here = f"subsets[{index}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            detail = "must specify `addresses` or `notReadyAddresses`"
            found.append(why.required(here, detail))
        for key in ("addresses", "notReadyAddresses"):
            for position, entry in enumerate(items(subset, key)):
                address(found, entry.get("ip", ""), f"{here}.{key}[{position}].ip")
        ports = list(items(subset, "ports"))
        for position, entry in enumerate(ports):
            if len(ports) > 1 and not entry.get("name"):
                found.append(why.required(f"{here}.ports[{position}].name"))
            port(found, f"{here}.ports[{position}].port", entry.get("port", 0))


# --- cluster ------------------------------------------------------------------------------------


def namespace(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Validate a Namespace."""
    for finalizer in field(obj, "spec").get("finalizers") or ():
        fault = qualified_name_fault(finalizer)
        if fault:
            found.append(why.invalid("spec.finalizers", finalizer, fault))
        elif "/" not in finalizer and finalizer != "kubernetes":
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            found.append(why.invalid("spec.finalizers", finalizer, detail))


_EFFECTS = ("NoExecute", "NoSchedule", "PreferNoSchedule")


def node(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Validate a Node."""
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(items(obj, "spec", "taints")):
        here = f"spec.taints[{index}]"
        key, effect = taint.get("key", ""), taint.get("effect", "")
        fault = qualified_name_fault(key)
        if fault:
            found.append(why.invalid(f"{here}.key", key, fault))
        if effect not in _EFFECTS:
            found.append(why.not_supported(f"{here}.effect", effect, _EFFECTS))
        if (key, effect) in seen:
            found.append(why.duplicate(here, taint))
        seen.add((key, effect))


def binding(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Validate a Binding."""
    target = field(obj, "target")
    if target.get("kind", "Node") not in ("", "Node"):
        found.append(why.not_supported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        found.append(why.required("target.name"))


_EVENT_LIMITS = (("action", 128), ("reason", 128), ("message", 1024))


def event(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Validate an Event of the core group; new-style ones (with eventTime) have more rules."""
    own = field(obj, "metadata").get("namespace", "")
    regarding = field(obj, "involvedObject").get("namespace", "")
    here = "involvedObject.namespace"
    mismatch = why.invalid(here, regarding, "does not match event.namespace")
    if not obj.get("eventTime"):
        if own != regarding and (regarding or own != "default"):
            found.append(mismatch)
        return
    if not regarding and own not in ("default", "kube-system"):
        found.append(mismatch)
    controller = obj.get("reportingComponent") or ""
    fault = qualified_name_fault(controller)
    if not controller:
        found.append(why.required("reportingComponent"))
    elif fault:
        found.append(why.invalid("reportingComponent", controller, fault))
    found.extend(
        why.required(key) for key in ("reportingInstance", "action", "reason") if not obj.get(key)
    )
    for key, limit in _EVENT_LIMITS:
        if len(obj.get(key) or "") > limit:
            found.append(why.invalid(key, "", f"can have at most {limit} characters"))
