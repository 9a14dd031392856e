"""The action of a request, as authorization sees it.

Rules: ``pkg/endpoints/request/requestinfo.go`` of Kubernetes' API server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl

from traincrew.local.apiserver.requests import is_true
from traincrew.local.apiserver.values.selectors import selected_name

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Attributes", "request_attributes"]

_VERBS = {
    "DELETE": "delete",
    "GET": "get",
    "HEAD": "get",
    "PATCH": "patch",
    "POST": "create",
    "PUT": "update",
}
_OF_NAMESPACES = {"status", "finalize"}


class Attributes(NamedTuple):
    """An action.

    Attributes:
        verb: such as ``list``; the method in lower case for paths that are no resources.
        group: the API group; empty for the core group.
        resource: plural name; empty for other paths.
        subresource: such as ``log``.
        namespace: empty for cluster-scoped resources and for all namespaces.
        name: name of the object, where the path or the field selector has one.
        path: the path, for paths that are no resources.
        is_resource: whether it is an action on a resource.
    """

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    is_resource: bool = True


def request_attributes(method: str, segments: Sequence[str], query: str) -> Attributes:
    """Return the action of a request.

    Args:
        method: upper case.
        segments: the decoded segments of the path, which routing uses as well.
        query: the raw query.
    """
    parts = _stripped(segments)
    core = parts[:1] == ["api"]
    if parts[:1] not in (["api"], ["apis"]) or len(parts) < (3 if core else 4):
        path = "/" + "/".join(segments)
        return Attributes(method.lower(), path=path, is_resource=False)
    group, rest = ("", parts[2:]) if core else (parts[1], parts[3:])
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and not (len(rest) == 3 and rest[2] in _OF_NAMESPACES):
            rest = rest[2:]
    resource, name, subresource = (*rest, "", "")[:3] if len(rest) < 3 else rest[:3]
    verb = _VERBS.get(method, "")
    if verb == "get" and not subresource:
        verb, name = _read_verb(name, query)
    elif verb == "delete" and not name:
        verb = "deletecollection"
    return Attributes(verb, group, resource, subresource, namespace, name)


def _stripped(segments: Sequence[str]) -> list[str]:
    parts = list(segments)
    while parts and not parts[0]:
        del parts[0]
    while parts and not parts[-1]:
        parts.pop()
    return parts


def _read_verb(name: str, query: str) -> tuple[str, str]:
    """Return the verb of a GET, and the name that it is restricted to."""
    options: dict[str, str] = {}
    for key, value in parse_qsl(query, keep_blank_values=True):
        options.setdefault(key, value)
    watch = is_true(options["watch"]) if "watch" in options else False
    if name:
        # Here, as opposed to upstream, a single object can be watched by its path.
        return ("watch" if watch else "get"), name
    return ("watch" if watch else "list"), selected_name(options.get("fieldSelector", ""))
