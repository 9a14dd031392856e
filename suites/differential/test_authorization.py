"""Authorization: random Roles and bindings, and what they allow, in both servers."""

from __future__ import annotations

import asyncio
import json
import random
import secrets
from typing import TYPE_CHECKING, Any

import pytest

from .campaign import NAMESPACES
from .requests import Resource
from .servers import serve_pair

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from .requests import Answer
    from .servers import Pair, Server

Document = dict[str, Any]

GROUP = "rbac.authorization.k8s.io"
DEADLINE = 30.0
ROLES, BINDINGS, QUESTIONS, GRANTS = 24, 40, 400, 60

VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "*")
GROUPS = ("", "apps", "batch", GROUP, "*")
RESOURCES = (
    "pods",
    "pods/log",
    "pods/exec",
    "deployments",
    "deployments/scale",
    "*/scale",
    "roles",
    "rolebindings",
    "*",
)
NAMES = ("one", "two")
PATHS = ("/metrics", "/healthz", "/healthz/*", "/logs/*", "*")


class Policies:
    """Random Roles and bindings with names and users of one run."""

    def __init__(self, pair: Pair, choice: random.Random, run: str) -> None:
        self.pair, self.choice, self.run = pair, choice, run
        self.namespaces = [f"authorization-{run}-{letter}" for letter in "ab"]
        self.users = [
            f"user-{run}",
            *(f"system:serviceaccount:{each}:robot" for each in self.namespaces),
        ]
        self.roles: list[tuple[str, str, str]] = []  # kind, namespace and name
        self.made: list[str] = []

    def some(self, values: tuple[str, ...], most: int = 3) -> list[str]:
        return self.choice.sample(values, self.choice.randint(1, min(most, len(values))))

    def rule(self, *, cluster: bool) -> Document:
        if cluster and self.choice.random() < 0.3:
            return {
                "verbs": self.some(("get", "post", "*"), 2),
                "nonResourceURLs": self.some(PATHS),
            }
        found: Document = {
            "verbs": self.some(VERBS),
            "apiGroups": self.some(GROUPS, 2),
            "resources": self.some(RESOURCES),
        }
        if self.choice.random() < 0.3:
            found["resourceNames"] = self.some(NAMES, 2)
        return found

    def role(self, name: str) -> tuple[str, Document]:
        """Return the path of a collection and a Role for it."""
        namespace = self.choice.choice(["", *self.namespaces])
        kind = "Role" if namespace else "ClusterRole"
        rules = [self.rule(cluster=not namespace) for _ in range(self.choice.randint(1, 3))]
        self.roles.append((kind, namespace, name))
        return _path(f"{kind.lower()}s", namespace), _object(kind, name, rules=rules)

    def binding(self, name: str, subject: Document | None = None) -> tuple[str, Document]:
        kind, of, role = self.choice.choice(self.roles)
        namespace = of or self.choice.choice(["", *self.namespaces])
        made = _object(
            "RoleBinding" if namespace else "ClusterRoleBinding",
            name,
            roleRef={"apiGroup": GROUP, "kind": kind, "name": role},
            subjects=[subject or self.subject() for _ in range(self.choice.randint(1, 2))],
        )
        return _path(f"{made['kind'].lower()}s", namespace), made

    def subject(self) -> Document:
        namespace = self.choice.choice(self.namespaces)
        return self.choice.choice(
            [
                {"kind": "User", "name": self.users[0], "apiGroup": GROUP},
                {"kind": "ServiceAccount", "name": "robot", "namespace": namespace},
                {"kind": "Group", "name": f"system:serviceaccounts:{namespace}", "apiGroup": GROUP},
            ]
        )

    async def create(self, path: str, document: Document) -> None:
        self.made.append(f"{path}/{document['metadata']['name']}")
        for server in (self.pair.real, self.pair.embedded):
            answer = await _post(server, path, document)
            assert answer.code == 201, f"{server.name}: {answer.text}"

    async def create_all(self) -> None:
        """Create everything, and wait until the real server knows the last of each kind.

        It watches roles and bindings, of namespaces and of the cluster, each by itself.
        """
        for number in range(ROLES):
            await self.create(*self.role(f"role-{self.run}-{number}"))
        self.roles.append(("ClusterRole", "", f"missing-{self.run}"))
        for number in range(BINDINGS):
            await self.create(*self.binding(f"binding-{self.run}-{number}"))
        await self.create_last("Role", self.namespaces[0])
        await self.create_last("ClusterRole", "")

    async def create_last(self, kind: str, namespace: str) -> None:
        """Create a role and its binding for a user of their own, and wait until they count."""
        last = f"last-{self.run}-{kind.lower()}"
        rules = [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]
        await self.create(_path(f"{kind.lower()}s", namespace), _object(kind, last, rules=rules))
        reference = {"apiGroup": GROUP, "kind": kind, "name": last}
        who = [{"kind": "User", "name": last, "apiGroup": GROUP}]
        bound = _object(f"{kind}Binding", last, roleRef=reference, subjects=who)
        await self.create(_path(f"{kind.lower()}bindings", namespace), bound)
        asked = {"verb": "get", "resource": "pods", "namespace": namespace}
        question = {"user": last, "resourceAttributes": asked}
        async with asyncio.timeout(DEADLINE):
            while not (await _decision(self.pair.real, question))["allowed"]:
                await asyncio.sleep(0.05)

    async def remove(self) -> None:
        for path in self.made:
            await self.pair.real.send("DELETE", path)
        for namespace in self.namespaces:
            await self.pair.real.send("DELETE", f"/api/v1/namespaces/{namespace}")

    def question(self) -> Document:
        user = self.choice.choice(self.users)
        spec: Document = {"user": user}
        if user.startswith("system:serviceaccount:"):
            namespace = user.split(":")[2]
            spec["groups"] = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
        if self.choice.random() < 0.2:
            paths = ("/metrics", "/metrics/x", "/healthz", "/healthz/etcd", "/logs/a/b", "/")
            verb, path = self.choice.choice(["get", "post", "put"]), self.choice.choice(paths)
            return {**spec, "nonResourceAttributes": {"verb": verb, "path": path}}
        resource, _, part = self.choice.choice(RESOURCES[:-1]).partition("/")
        asked = {
            "verb": self.choice.choice([*VERBS[:-1], "bind", "escalate"]),
            "group": self.choice.choice(GROUPS[:-1]),
            "resource": "deployments" if resource == "*" else resource,
            "subresource": part,
            "namespace": self.choice.choice(["", *self.namespaces]),
            "name": self.choice.choice(["", *NAMES, "three"]),
        }
        return {**spec, "resourceAttributes": asked}


def _path(plural: str, namespace: str) -> str:
    return Resource(GROUP, "v1", plural, "", namespaced=bool(namespace)).path(namespace)


def _object(kind: str, name: str, **parts: Any) -> Document:
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name}, **parts}


async def _post(server: Server, path: str, document: Document) -> Answer:
    return await server.send("POST", path, json.dumps(document).encode(), "application/json")


async def _decision(server: Server, spec: Document) -> Document:
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    answer = await _post(server, "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    assert answer.code == 201, answer.text
    status: Document = json.loads(answer.text)["status"]
    return status


def _comparable(answer: Answer) -> tuple[Any, ...]:
    """Return a response without lists whose order upstream leaves to chance."""
    body = json.loads(answer.text)
    if answer.code == 201:
        return (201, body["metadata"]["name"])
    words = sorted(body["message"].replace("[", " ").replace("]", " ").replace(",", " ").split())
    return (answer.code, body["reason"], body.get("details"), words)


@pytest.fixture
async def policies(kubeconfig: Path) -> AsyncIterator[Policies]:
    async with serve_pair(kubeconfig) as pair:
        run = secrets.token_hex(4)
        made = Policies(pair, random.Random(run), run)
        try:
            for namespace in made.namespaces:
                await pair.create(NAMESPACES, "", {"metadata": {"name": namespace}})
            await made.create_all()
            yield made
        finally:
            await made.remove()


async def test_random_policies_allow_the_same(policies: Policies) -> None:
    found, allowed = [], 0
    for _ in range(QUESTIONS):
        question = policies.question()
        real = await _decision(policies.pair.real, question)
        embedded = await _decision(policies.pair.embedded, question)
        allowed += real["allowed"]
        same = real["allowed"] == embedded["allowed"]
        if same and not real["allowed"]:  # which of several bindings allows it is left to chance
            same = sorted(real.get("reason", "").split()) == sorted(
                embedded.get("reason", "").split()
            ) or _as_words(real) == _as_words(embedded)
        if not same:
            found.append((question, real, embedded))
    assert not found, f"run {policies.run}: {found}"
    assert 0 < allowed < QUESTIONS


def _as_words(status: Document) -> list[str]:
    text = status.get("reason", "").replace("[", " ").replace("]", " ").replace(",", " ")
    return sorted(text.split())


async def test_the_same_may_be_granted(policies: Policies) -> None:
    """Users who may write Roles and bindings try to grant what they may not have."""
    writes = {
        "verbs": ["create"],
        "apiGroups": [GROUP],
        "resources": ["roles", "clusterroles", "rolebindings", "clusterrolebindings"],
    }
    name = f"writer-{policies.run}"
    made = _object("ClusterRole", name, rules=[writes])
    await policies.create(_path("clusterroles", ""), made)
    reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": name}
    subjects = [{"kind": "User", "name": user, "apiGroup": GROUP} for user in policies.users]
    bound = _object("ClusterRoleBinding", name, roleRef=reference, subjects=subjects)
    await policies.create(_path("clusterrolebindings", ""), bound)
    asked = {"verb": "create", "group": GROUP, "resource": "clusterrolebindings"}
    for user in policies.users:
        async with asyncio.timeout(DEADLINE):
            question = {"user": user, "resourceAttributes": asked}
            while not (await _decision(policies.pair.real, question))["allowed"]:
                await asyncio.sleep(0.05)
        # By chance one may hold everything already, and grant it.
        if await _refused_grants(policies, user):
            return
    pytest.fail("nobody was refused anything")


async def _refused_grants(policies: Policies, user: str) -> int:
    """Let a user try to grant rights; return how often that was refused, equally by both."""
    pair, found, refused = policies.pair.acting_as(user), [], 0
    nobody = {"kind": "User", "name": f"nobody-{policies.run}", "apiGroup": GROUP}
    for number in range(GRANTS):
        # Nothing is stored, so that what is held stays the same.
        if number % 2:
            known = list(policies.roles)
            path, document = policies.role(f"grant-{policies.run}-{number}")
            policies.roles = known
        else:
            path, document = policies.binding(f"grant-{policies.run}-{number}", nobody)
        real, embedded = [
            _comparable(await _post(server, f"{path}?dryRun=All", document))
            for server in (pair.real, pair.embedded)
        ]
        refused += real[0] == 403
        if real != embedded:
            found.append((path, document, real, embedded))
    assert not found, f"run {policies.run}: {found}"
    return refused


REQUESTS = (
    ("GET", "/api/v1/namespaces/{ns}/pods"),
    ("GET", "/api/v1/pods?watch=1"),
    ("GET", "/api/v1/namespaces/{ns}/pods/p"),
    ("GET", "/api/v1/namespaces/{ns}/pods/p/log"),
    ("POST", "/api/v1/namespaces/{ns}/pods/p/exec?command=x"),
    ("GET", "/api/v1/namespaces/{ns}/pods/p/exec?command=x"),
    ("GET", "/api/v1/namespaces/{ns}/pods/p/proxy/a/b"),
    ("GET", "/api/v1/namespaces/{ns}"),
    ("PUT", "/api/v1/namespaces/{ns}/finalize"),
    ("DELETE", "/api/v1/namespaces/{ns}/configmaps"),
    ("DELETE", "/apis/apps/v1/namespaces/{ns}/deployments/d"),
    ("PATCH", "/apis/apps/v1/namespaces/{ns}/deployments/d/scale"),
    ("PUT", "/api/v1/nodes/n"),
    ("GET", "/apis/example.com/v1/things/x"),
    ("GET", "/metrics"),
    ("GET", "/logs/a%20b?c=d"),
    ("POST", "/<a>&"),
    ("GET", "/api/v1/namespaces/{ns}/pods?fieldSelector=metadata.name%3Dp"),
)


@pytest.mark.parametrize(("method", "path"), REQUESTS)
async def test_requests_are_forbidden_in_the_same_words(
    kubeconfig: Path, method: str, path: str
) -> None:
    async with serve_pair(kubeconfig) as pair:
        stranger = pair.acting_as("system:serviceaccount:default:stranger")
        path = path.format(ns="default")
        real, embedded = [
            json.loads((await server.send(method, path, None)).text)
            for server in (stranger.real, stranger.embedded)
        ]
        assert embedded == real
        assert real["code"] == 403
