"""ServiceAccounts with Roles, as tests of authorization need them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from local.apiserver.support import Answer, Api

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROBOT = "system:serviceaccount:default:robot"

Document = dict[str, Any]


def rule(verbs: str, resources: str = "", group: str = "", names: str = "") -> Document:
    found: Document = {
        "apiGroups": [group],
        "resources": resources.split(),
        "verbs": verbs.split(),
    }
    return found | ({"resourceNames": names.split()} if names else {})


def urls(verbs: str, paths: str) -> Document:
    return {"verbs": verbs.split(), "nonResourceURLs": paths.split()}


def role(name: str, *rules: Document, cluster: bool = False) -> Document:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole" if cluster else "Role",
        "metadata": {"name": name},
        "rules": list(rules),
    }


def binding(name: str, kind: str, to: str, *subjects: Document, cluster: bool = False) -> Document:
    robot = {"kind": "ServiceAccount", "name": "robot", "namespace": "default"}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding" if cluster else "RoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": to},
        "subjects": list(subjects) or [robot],
    }


def place(document: Document, namespace: str = "default") -> str:
    plural = f"{document['kind'].lower()}s"
    if document["kind"].startswith("Cluster"):
        return f"{RBAC}/{plural}"
    return f"{RBAC}/namespaces/{namespace}/{plural}"


class Robot:
    """The ServiceAccount ``default/robot``: what it is granted, and its requests."""

    def __init__(self, api: Api, token: str) -> None:
        self.api = api
        self.headers = {"Authorization": f"Bearer {token}"}
        self._number = 0

    @classmethod
    async def create(cls, api: Api) -> Robot:
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        (await api.post(accounts, {"metadata": {"name": "robot"}})).ok(201)
        issued = (await api.post(f"{accounts}/robot/token", {"spec": {}})).ok(201)
        return cls(api, issued["status"]["token"])

    async def grant(self, *rules: Document, cluster: bool = False) -> str:
        """Grant rules in the namespace ``default``, or everywhere; return the binding's path."""
        self._number += 1
        name = f"granted-{self._number}"
        made = role(name, *rules, cluster=cluster)
        bound = binding(name, made["kind"], name, cluster=cluster)
        (await self.api.post(place(made), made)).ok(201)
        (await self.api.post(place(bound), bound)).ok(201)
        return f"{place(bound)}/{name}"

    async def request(self, method: str, path: str, body: Any = None, **options: Any) -> Answer:
        return await self.api.request(method, path, body, headers=self.headers, **options)

    async def get(self, path: str, **options: Any) -> Answer:
        return await self.request("GET", path, **options)

    async def post(self, path: str, body: Any, **options: Any) -> Answer:
        return await self.request("POST", path, body, **options)

    async def create_object(self, document: Document) -> Answer:
        return await self.post(place(document), document)
