"""The subresource ``serviceaccounts/NAME/token``: a token for an account.

Rules and messages: ``pkg/registry/core/serviceaccount/storage/token.go`` of Kubernetes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.requests.objectmeta import timestamp
from traincrew.local.apiserver.schema import load_builtin
from traincrew.local.apiserver.schema.decoding import decode_fault
from traincrew.local.apiserver.values import causes
from traincrew.local.apiserver.values.errors import bad_request, conflict, invalid, not_found

from .tokens import AUDIENCE

if TYPE_CHECKING:
    from traincrew.local.apiserver.storage import Entry, Storage
    from traincrew.local.apiserver.values.documents import Document

    from .tokens import Tokens

__all__ = ["issue"]

_GROUP, _KIND = "authentication.k8s.io", "TokenRequest"
_MIN_SECONDS, _MAX_SECONDS = 600, 1 << 32
_DEFAULT_SECONDS = 3600
_RESOURCES = {"Pod": "pods", "Node": "nodes", "Secret": "secrets"}


def issue(tokens: Tokens, storage: Storage, account: Entry, request: Document) -> Document:
    """Issue the token for a TokenRequest.

    Args:
        tokens: signs it.
        storage: holds the object that the token is to be bound to.
        account: the ServiceAccount.
        request: the TokenRequest.

    Returns:
        The request with its status.

    Raises:
        StatusError: 400 for values of a wrong type or an object that no token is bound to, 404
            without that object, 409 for another UID, 422 for another account or a duration that no
            token has.
    """
    fault = decode_fault(load_builtin(_GROUP, "v1", _KIND).node, request)
    if fault is not None:
        raise bad_request(f'{_KIND} in version "v1" cannot be handled as a {_KIND}: {fault}')
    _check_account(account, request.get("metadata") or {})
    metadata, spec = account.obj["metadata"], request.get("spec") or {}
    seconds = spec.get("expirationSeconds")
    if seconds is None:
        seconds = _DEFAULT_SECONDS
    _check_duration(seconds)
    reference = spec.get("boundObjectRef")
    bound = {} if reference is None else _bound(storage, account, reference)
    audiences = spec.get("audiences") or [AUDIENCE]
    now = int(tokens.clock())
    return {
        "kind": _KIND,
        "apiVersion": f"{_GROUP}/v1",
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
            "creationTimestamp": timestamp(now),
        },
        "spec": {
            "audiences": audiences,
            "expirationSeconds": seconds,
            "boundObjectRef": reference,
        },
        "status": {
            "token": tokens.issue(account.obj, audiences, now + seconds, bound),
            "expirationTimestamp": timestamp(now + seconds),
        },
    }


def _check_account(account: Entry, metadata: Document) -> None:
    """Check that a request names no account other than that of its path."""
    for key, own in (("name", account.key[1]), ("namespace", account.key[0])):
        given = metadata.get(key)
        if given and given != own:
            detail = f"must match the service account {key} if specified"
            cause = causes.invalid(f"metadata.{key}", given, detail)
            raise invalid(_GROUP, _KIND, account.key[1], [cause])
    given, uid = metadata.get("uid"), account.obj["metadata"]["uid"]
    if given and given != uid:
        why = (
            f"the UID in the token request ({given}) does not match the UID of the service "
            f"account ({uid})"
        )
        raise conflict(_KIND, _GROUP, account.key[1], why)


def _check_duration(seconds: int) -> None:
    detail = ""
    if seconds < _MIN_SECONDS:
        detail = "may not specify a duration less than 10 minutes"
    elif seconds > _MAX_SECONDS:
        detail = "may not specify a duration larger than 2^32 seconds"
    if detail:
        raise invalid(
            _GROUP, _KIND, "", [causes.invalid("spec.expirationSeconds", seconds, detail)]
        )


def _bound(storage: Storage, account: Entry, reference: Document) -> dict[str, Document]:
    """Return the object that a token is to be bound to, and the node of a pod."""
    group, _, version = (reference.get("apiVersion") or "").rpartition("/")
    kind, name = reference.get("kind") or "", reference.get("name") or ""
    resource = _RESOURCES.get(kind)
    if group or resource is None:
        raise bad_request(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
    namespace = "" if kind == "Node" else account.key[0]
    entry = storage.get(resource, (namespace, name))
    if entry is None:
        raise not_found(resource, "", name)
    obj = entry.obj
    if kind == "Pod" and obj["spec"].get("serviceAccountName") != account.key[1]:
        raise bad_request(
            f"cannot bind token for serviceaccount {causes.quote(account.key[1])} to pod running "
            "with different serviceaccount name."
        )
    wanted, uid = reference.get("uid"), obj["metadata"]["uid"]
    if wanted and wanted != uid:
        why = (
            f"the UID in the bound object reference ({wanted}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        raise conflict(kind, "", name, why)
    bound = {kind.lower(): {"name": name, "uid": uid}}
    node_name = obj["spec"].get("nodeName") if kind == "Pod" else None
    if node_name:
        node = storage.get("nodes", ("", node_name))
        bound["node"] = {"name": node_name}
        if node is not None:
            bound["node"]["uid"] = node.obj["metadata"]["uid"]
    return bound
