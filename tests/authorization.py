"""Role-based access control as far as a test of least privilege needs it. Pure.

The rules of roles are split into single permissions, and so are the requests that were made. That
shows which requests would have been denied, and which permissions were never used. The rules are
those of the Kubernetes documentation, "Using RBAC Authorization", without wildcards, which our
roles do not have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Document = dict[str, Any]

RBAC = "rbac.authorization.k8s.io"


class Permission(NamedTuple):
    """One verb on one kind of object; in all namespaces, for all names if these are None."""

    group: str
    resource: str
    verb: str
    namespace: str | None = None
    name: str | None = None

    def covers(self, request: Permission) -> bool:
        """Return whether it permits a request, or the granting of another permission."""
        return (
            self[:3] == request[:3]
            and self.namespace in {None, request.namespace}
            and self.name in {None, request.name}
        )

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        which = f" {self.name}" if self.name else ""
        return f"{self.verb} {self.resource}{'.' if self.group else ''}{self.group}{which}{where}"


class Judgement(NamedTuple):
    """The differences between granted and needed permissions."""

    denied: list[Permission]
    unused: list[Permission]


def of_rules(
    rules: Iterable[Mapping[str, Any]] | None, namespace: str | None = None
) -> set[Permission]:
    """Return the single permissions of the rules of a role; without any, Kubernetes stores null."""
    found = set()
    for rule in rules or ():
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    for name in rule.get("resourceNames") or [None]:
                        found.add(Permission(group, resource, verb, namespace, name))
    return found


def of_account(documents: Iterable[Document], name: str, namespace: str) -> set[Permission]:
    """Return what the roles and bindings among the objects grant to a ServiceAccount."""
    account = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    objects = [document for document in documents if document["apiVersion"] == f"{RBAC}/v1"]
    roles = {
        (role["kind"], role["metadata"].get("namespace"), role["metadata"]["name"]): role["rules"]
        for role in objects
        if role["kind"] in {"Role", "ClusterRole"}
    }
    found: set[Permission] = set()
    for binding in objects:
        if account not in binding.get("subjects", []):
            continue
        where = binding["metadata"].get("namespace")
        reference = binding["roleRef"]
        holder = where if reference["kind"] == "Role" else None
        found |= of_rules(roles[reference["kind"], holder, reference["name"]], where)
    return found


def of_http(method: str, target: str) -> Permission | None:
    """Return the permission that a request needs; None if it needs none.

    Args:
        method: HTTP method, such as ``GET``.
        target: Path and query.
    """
    url = urlsplit(target)
    query = parse_qs(url.query)
    parts = [part for part in url.path.split("/") if part]
    if parts[:1] == ["api"]:
        group, parts = "", parts[2:]
    elif parts[:1] == ["apis"]:
        group, parts = parts[1], parts[3:]
    else:
        return None
    namespace = None
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    if not parts:
        return None
    resource, name = parts[0], parts[1] if len(parts) > 1 else None
    if len(parts) > 2:
        resource += f"/{parts[2]}"
    verbs = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
    verb = verbs[method]
    if name is None and method == "GET":
        verb = "watch" if query.get("watch", [""])[0] in {"1", "true"} else "list"
        for selector in query.get("fieldSelector", []):
            if selector.startswith("metadata.name="):
                name = selector.removeprefix("metadata.name=")
    if name is None and method == "DELETE":
        verb = "deletecollection"
    return Permission(group, resource, verb, namespace, name)


def implied(written: Document, resources: Mapping[str, str]) -> set[Permission]:
    """Return the permissions that the writer of an object needs, besides the write itself.

    A writer who grants a permission must hold it. The admission plugin
    OwnerReferencesPermissionEnforcement requires that the writer may block the deletion of an
    owner named with ``blockOwnerDeletion``.

    Args:
        written: The object.
        resources: The plural of each kind that owns objects.
    """
    metadata = written["metadata"]
    namespace = metadata.get("namespace")
    found = set()
    if written["kind"] == "Role":
        found |= of_rules(written["rules"], namespace)
    for owner in metadata.get("ownerReferences", []):
        if owner.get("blockOwnerDeletion"):
            group = owner["apiVersion"].rpartition("/")[0]
            resource = f"{resources[owner['kind']]}/finalizers"
            found.add(Permission(group, resource, "update", namespace, owner["name"]))
    return found


def judge(granted: Iterable[Permission], needed: Iterable[Permission]) -> Judgement:
    """Compare granted with needed permissions."""
    granted, needed = set(granted), set(needed)
    return Judgement(
        denied=sorted(
            {request for request in needed if not any(each.covers(request) for each in granted)},
            key=str,
        ),
        unused=sorted(
            {each for each in granted if not any(each.covers(request) for request in needed)},
            key=str,
        ),
    )
