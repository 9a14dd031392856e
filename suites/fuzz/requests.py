"""The random requests: each is made from a seed and its number alone, to be repeatable."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import yaml
from suites.differential.kinds import KINDS
from suites.differential.random_choice import RandomChoice
from suites.differential.requests import Resource

from . import definitions, mutations, protobufs, yamls

if TYPE_CHECKING:
    from collections.abc import Callable

    from suites.differential.requests import Document

NAMESPACE = "fuzz"
NAMES = ["a", "b", "c"]
JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
APPLY = "application/apply-patch+yaml"
PATCHES = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    APPLY,
]
MAX_BODY_BYTES = 3 * 1024 * 1024
BLOCK, FEW = 250, 5
"""Number of requests with objects of so few kinds, so that most objects exist."""
TOKEN = "{token}"
"""Stands for the valid token of the administrator, which the seed does not determine."""


@dataclass(frozen=True)
class Request:
    """One request as it is sent.

    Attributes:
        number: of the campaign's requests.
        headers: without Host, Content-Length and the administrator's token.
        authorization: the header, with `TOKEN` in place of the valid token; none if empty.
        framing: replaces the header of the body's length.
    """

    number: int
    method: str
    path: str
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    authorization: str = f"Bearer {TOKEN}"
    framing: bytes | None = field(default=None)

    def encoded(self, token: str) -> bytes:
        """Return the bytes to send."""
        lines = [f"{self.method} {self.path} HTTP/1.1", "Host: 127.0.0.1"]
        if self.authorization:
            lines.append(f"Authorization: {self.authorization.replace(TOKEN, token)}")
        lines += [f"{name}: {value}" for name, value in self.headers]
        head = "\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n"
        length = self.framing
        if length is None:
            length = f"Content-Length: {len(self.body)}\r\n".encode() if self.body else b""
        return head + length + b"\r\n" + self.body


@cache
def own_kinds() -> list[tuple[Resource, Document]]:
    """Return the training kinds with an example of each."""
    examples = Path(__file__).parents[2] / "examples"
    files = [
        ("chainer/chainerjob-mn.yaml", "chainerjobs"),
        ("elastic/elasticjob.yaml", "elasticjobs"),
        ("mxnet/mxjob-dist.yaml", "mxjobs"),
        ("openmpi/without-ssh.yaml", "mpiclusters"),
    ]
    found = []
    for file, plural in files:
        for document in yaml.safe_load_all((examples / file).read_text()):
            group, _, version = str(document["apiVersion"]).rpartition("/")
            if f"{document['kind']}s".lower() == plural:
                for spec in _pod_specs(document):
                    spec["containers"][0]["image"] = "i"
                found.append((Resource(group, version, plural, document["kind"]), document))
    return found


def _pod_specs(value: Any) -> list[Document]:
    if isinstance(value, list):
        return [spec for each in value for spec in _pod_specs(each)]
    if not isinstance(value, dict):
        return []
    if isinstance(value.get("containers"), list):
        return [value]
    return [spec for each in value.values() for spec in _pod_specs(each)]


REVIEWS: list[tuple[Resource, Document]] = [
    (
        Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False),
        {"spec": {"token": "x", "audiences": ["a"]}},
    ),
    (
        Resource(
            "authorization.k8s.io",
            "v1",
            "subjectaccessreviews",
            "SubjectAccessReview",
            namespaced=False,
        ),
        {"spec": {"user": "u", "groups": ["g"], "nonResourceAttributes": {"path": "/metrics"}}},
    ),
    (
        Resource(
            "authorization.k8s.io",
            "v1",
            "selfsubjectaccessreviews",
            "SelfSubjectAccessReview",
            namespaced=False,
        ),
        {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "x"}}},
    ),
    (
        Resource(
            "authentication.k8s.io",
            "v1",
            "selfsubjectreviews",
            "SelfSubjectReview",
            namespaced=False,
        ),
        {},
    ),
]


class Requests:
    """Makes the requests of a seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._kinds = list(KINDS.values())
        self._makers: dict[Callable[[RandomChoice, int], Request], float] = {
            self._write: 30,
            self._patch: 22,
            self._custom: 13,
            self._protobuf: 7,
            self._yaml: 8,
            self._read: 9,
            self._delete: 4,
            self._subresource: 5,
            self._token: 4,
            self._http: 6,
        }

    def make(self, number: int) -> Request:
        """Return one request."""
        block = RandomChoice(self.seed * 1_000_003 - 1 - number // BLOCK)
        self._kinds = block.some(list(KINDS.values()), FEW, least=FEW)
        choice = RandomChoice(self.seed * 1_000_003 + number)
        request = choice.weighted(self._makers)(choice, number)
        # Some are a little longer than a server accepts.
        return replace(request, body=request.body[: MAX_BODY_BYTES + 64 * 1024])

    # -- objects

    def _base(self, choice: RandomChoice) -> tuple[Resource, Document]:
        """Return a valid object, and its resource."""
        roll = choice.random.random()
        if roll < 0.12:
            resource, document = choice.one(own_kinds())
            body = dict(document)
        elif roll < 0.18:
            resource, document = choice.one(REVIEWS)
            body = {"apiVersion": resource.api_version, "kind": resource.kind, **document}
        else:
            kind = choice.one(self._kinds)
            resource = kind.resource
            head = {"apiVersion": resource.api_version, "kind": resource.kind}
            body = head | kind.document(choice)
        metadata = {"name": choice.one(NAMES)} | (body.get("metadata") or {})
        return resource, body | {"metadata": metadata | {"name": choice.one(NAMES)}}

    def _write(self, choice: RandomChoice, number: int) -> Request:
        resource, document = self._base(choice)
        body = _limited(mutations.json_body(choice, mutations.mutated(choice, document)))
        if choice.maybe(0.65) or resource.plural.endswith("reviews"):
            method, path = "POST", resource.path(NAMESPACE)
        else:
            method, path = "PUT", _named(choice, resource)
        return Request(number, method, path + _options(choice), *_typed(choice, JSON, body))

    def _patch(self, choice: RandomChoice, number: int) -> Request:
        resource, document = self._base(choice)
        kind = choice.one(PATCHES)
        if kind == PATCHES[0]:
            patch: Any = [_operation(choice, document) for _ in range(choice.number(0, 4))]
            if choice.maybe(0.02):
                patch = patch * 3_000
        else:
            patch = document if kind == APPLY else {"spec": document.get("spec", {})}
        body = _limited(mutations.json_body(choice, mutations.mutated(choice, patch)))
        query = _options(choice)
        if kind == APPLY and choice.maybe(0.8):
            query += ("&" if query else "?") + "fieldManager=fuzz&force=true"
        path = _named(choice, resource) + query
        return Request(number, "PATCH", path, *_typed(choice, kind, body))

    def _custom(self, choice: RandomChoice, number: int) -> Request:
        which = choice.number(1, definitions.KINDS)
        if choice.maybe(0.35):
            document = definitions.definition(choice, which)
            document = mutations.mutated(choice, document, choice.one([0, 0, 1, 2]))
            path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            kind, method = JSON, "POST"
            if choice.maybe(0.4):
                path += f"/{definitions.resource(which).plural}.{definitions.GROUP}?force=true"
                path += "&fieldManager=fuzz"
                kind, method = APPLY, "PATCH"
        else:
            resource = definitions.resource(which)
            document = definitions.custom_object(choice, which)
            document = mutations.mutated(choice, document, choice.one([0, 1, 2]))
            kind, method, path = JSON, "POST", resource.path(NAMESPACE)
            if choice.maybe():
                method, path = "PATCH", _named(choice, resource) + "?fieldManager=fuzz&force=true"
                kind = choice.one([APPLY, APPLY, *PATCHES[:2]])
        body = _limited(mutations.json_body(choice, document))
        return Request(number, method, path, *_typed(choice, kind, body))

    def _protobuf(self, choice: RandomChoice, number: int) -> Request:
        resource = choice.one(self._kinds).resource
        method = choice.one(["POST", "POST", "PUT"])
        path = resource.path(NAMESPACE) if method == "POST" else _named(choice, resource)
        body = protobufs.body(choice, resource)
        return Request(number, method, path + _options(choice), *_typed(choice, PROTOBUF, body))

    def _yaml(self, choice: RandomChoice, number: int) -> Request:
        resource, document = self._base(choice)
        body = _limited(yamls.text(choice, document).encode("utf-8", "surrogatepass"))
        if choice.maybe():
            path = _named(choice, resource) + "?fieldManager=fuzz&force=true"
            return Request(number, "PATCH", path, *_typed(choice, APPLY, body))
        path = resource.path(NAMESPACE)
        return Request(number, "POST", path, *_typed(choice, YAML, body))

    # -- reading and deleting

    def _read(self, choice: RandomChoice, number: int) -> Request:
        resource, _ = self._base(choice)
        path = choice.one(
            [
                resource.path(NAMESPACE),
                resource.path(NAMESPACE),
                _named(choice, resource),
                "/openapi/v3",
                "/openapi/v2",
                "/apis",
                "/api/v1",
                "/version",
                "/healthz",
                "/metrics",
                f"/apis/{resource.group}",
            ]
        )
        accept = choice.one(
            [
                JSON,
                "application/json;as=Table;v=v1;g=meta.k8s.io",
                "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
                PROTOBUF,
                "application/yaml",
                "text/html, */*;q=0.8",
                ";;;,=",
                "application/json;as=;v=;g=",
            ]
        )
        return Request(number, "GET", path + _query(choice), headers=(("Accept", accept),))

    def _delete(self, choice: RandomChoice, number: int) -> Request:
        resource, _ = self._base(choice)
        options: Any = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "propagationPolicy": choice.one(["Background", "Foreground", "Orphan", "x"]),
            "preconditions": {"uid": "x", "resourceVersion": "1"},
            "dryRun": ["All"],
        }
        kept = {key: value for key, value in options.items() if choice.maybe()}
        body = mutations.json_body(choice, mutations.mutated(choice, kept))
        if choice.maybe(0.2):
            body = b""
        path = _named(choice, resource) if choice.maybe(0.8) else resource.path(NAMESPACE)
        return Request(number, "DELETE", path + _query(choice), *_typed(choice, JSON, body))

    def _subresource(self, choice: RandomChoice, number: int) -> Request:
        method, plural, subresource, document = choice.one(SUBRESOURCES)
        name = choice.one(NAMES)
        path = f"{plural.replace('~', NAMESPACE)}/{name}/{subresource}"
        if document is None:
            headers: tuple[tuple[str, str], ...] = ()
            if choice.maybe(0.4):
                headers = _websocket(choice)
            return Request(number, method, path + _query(choice, SUBQUERIES), headers=headers)
        body = mutations.json_body(choice, mutations.mutated(choice, document))
        kind = JSON if method != "PATCH" else choice.one(PATCHES)
        return Request(number, method, path + _options(choice), *_typed(choice, kind, body))

    # -- HTTP

    def _token(self, choice: RandomChoice, number: int) -> Request:
        path = choice.one(["/api/v1/namespaces", "/version", "/api/v1/namespaces/x/pods"])
        return Request(number, "GET", path, authorization=_authorization(choice))

    def _http(self, choice: RandomChoice, number: int) -> Request:
        method = choice.one(
            ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT",
             "PRI", "get", "X" * 300, "G\x7fT", "PROPFIND"]
        )  # fmt: skip
        path = _odd_path(choice)
        headers: tuple[tuple[str, str], ...] = tuple(
            choice.one(ODD_HEADERS) for _ in range(choice.number(0, 2))
        )
        if choice.maybe(0.2):
            return Request(number, "GET", path, headers=_websocket(choice))
        body, framing = b"", None
        if choice.maybe(0.3):
            body = mutations.json_body(choice, {"metadata": {"name": "a"}})
            framing = choice.one(
                [
                    None,
                    b"Content-Length: -1\r\n",
                    b"Content-Length: x\r\n",
                    b"Content-Length: 5\r\nContent-Length: 6\r\n",
                    b"Content-Length: 99999999999999999999\r\n",
                    b"Transfer-Encoding: gzip\r\n",
                    b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
                ]
            )
            if choice.maybe(0.3):
                framing = b"Transfer-Encoding: chunked\r\n"
                size = choice.one([b"%x" % len(body), b"-1", b"zz", b"f" * 30, b""])
                body = size + b"\r\n" + body + b"\r\n0\r\n\r\n"
        return Request(number, method, path, body, headers, framing=framing)


PODS = "/api/v1/namespaces/~/pods"
SUBRESOURCES: list[tuple[str, str, str, Any]] = [
    ("PUT", "/apis/apps/v1/namespaces/~/deployments", "scale",
     {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"},
      "spec": {"replicas": 1}}),
    ("PATCH", "/apis/apps/v1/namespaces/~/statefulsets", "scale", {"spec": {"replicas": 1}}),
    ("POST", PODS, "eviction",
     {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}),
    ("POST", PODS, "binding",
     {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"},
      "target": {"kind": "Node", "name": "none"}}),
    ("PATCH", PODS, "status", {"status": {"phase": "Running", "conditions": [{"type": "Ready"}]}}),
    ("PATCH", PODS, "ephemeralcontainers",
     {"spec": {"ephemeralContainers": [{"name": "e", "image": "i"}]}}),
    ("PATCH", PODS, "resize", {"spec": {"containers": [{"name": "c"}]}}),
    ("POST", "/api/v1/namespaces/~/serviceaccounts", "token",
     {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
      "spec": {"audiences": ["a"], "expirationSeconds": 600,
               "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "a", "uid": "x"}}}),
    ("PUT", "/api/v1/namespaces", "finalize",
     {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}, "spec": {}}),
    ("GET", PODS, "log", None),
    ("GET", PODS, "exec", None),
    ("POST", PODS, "exec", None),
    ("GET", PODS, "attach", None),
    ("GET", PODS, "portforward", None),
    ("GET", PODS, "proxy/x", None),
    ("GET", "/api/v1/namespaces/~/services", "proxy/", None),
    ("GET", "/api/v1/nodes", "proxy/stats", None),
]  # fmt: skip
SUBQUERIES = ["container", "command", "stdin", "stdout", "tty", "follow", "tailLines", "sinceTime",
              "sinceSeconds", "limitBytes", "timestamps", "previous", "ports", "path"]  # fmt: skip
QUERIES = ["labelSelector", "fieldSelector", "limit", "continue", "resourceVersion",
           "resourceVersionMatch", "timeoutSeconds", "watch", "pretty", "allowWatchBookmarks",
           "sendInitialEvents", "gracePeriodSeconds", "propagationPolicy", "dryRun",
           "orphanDependents", "fieldValidation", "unknown"]  # fmt: skip
SELECTORS = [
    "a=b",
    "a in (b,c),!d",
    "a notin ()",
    "a>1,b<x",
    "metadata.name=a",
    "metadata.name!=a,status.phase=Running",
    "spec.nodeName==",
    "a" + ",a" * 3_000,
    "((((((",
    "=,=",
    "\\=a",
    "a=" + "x" * 5_000,
    "é=ü",
]
CONTINUES = [
    "x",
    base64.urlsafe_b64encode(b'{"v":"meta.k8s.io/v1","rv":1,"start":"a"}').decode(),
    base64.urlsafe_b64encode(b'{"v":"meta.k8s.io/v1","rv":-1,"start":"../../x"}').decode(),
    base64.urlsafe_b64encode(b'{"v":"meta.k8s.io/v1","rv":1e99,"start":[]}').decode(),
    base64.urlsafe_b64encode(b'{"v":"meta.k8s.io/v2","rv":"' + b"9" * 50 + b'"}').decode(),
    base64.urlsafe_b64encode(b"[" * 2_000).decode(),
    base64.urlsafe_b64encode(b'{"v":"meta.k8s.io/v1","rv":1,"start":"\xff\\u0000"}').decode(),
]
ODD_HEADERS = [
    ("Expect", "100-continue"),
    ("Expect", "x"),
    ("Connection", "close"),
    ("Connection", "upgrade, x"),
    ("Content-Type", "x" * 3_000),
    ("Content-Type", "application/json; charset=utf-16"),
    ("Content-Encoding", "br"),
    ("Content-Encoding", "gzip"),
    ("X-Long", "y" * 60_000),
    ("X-Longer", "y" * 70_000),
    ("X Bad", "1"),
    ("", "1"),
    ("X-Bytes", "\udcff\udcfe"),
    ("X-Control", "a\x01b"),
    ("Host", "evil.example.com"),
    ("Origin", "https://evil.example.com"),
    ("Sec-Fetch-Site", "cross-site"),
    ("Impersonate-User", "system:admin"),
    ("Range", "bytes=0-,0-,0-"),
    ("If-Match", "*"),
    ("Accept-Encoding", "gzip;q=x, *;q=0"),
    ("User-Agent", "\u202e%s{}"),
    ("Cookie", "a=b; " * 500),
]


def _operation(choice: RandomChoice, document: Document) -> Document:
    """Return an operation of a JSON patch on a place that an object of the kind may have."""
    path = ""
    value: Any = document
    pointers = [""]
    while isinstance(value, (dict, list)) and value and choice.maybe(0.85):
        items = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
        key, value = choice.one(items)
        path += "/" + str(key).replace("~", "~0").replace("/", "~1")
        pointers.append(path)
    odd = ["/metadata/labels/x", "", "/", "/-", "x", "/~2", "/spec/-1", "/a" * 500]
    place = choice.one([path, path, path, *odd])
    operation: Document = {
        "op": choice.one(["add", "replace", "remove", "test", "copy", "move", "x"])
    }
    operation["path"] = place
    if operation["op"] in {"copy", "move"}:
        operation["from"] = choice.one(pointers)
    else:
        operation["value"] = mutations.odd_value(choice) if choice.maybe(0.3) else value
    return operation


def _typed(
    choice: RandomChoice, kind: str, body: bytes
) -> tuple[bytes, tuple[tuple[str, str], ...]]:
    """Return body and headers: mostly the type, sometimes another one, sometimes compressed."""
    if choice.maybe(0.03):
        kind = choice.one([JSON, YAML, PROTOBUF, *PATCHES, "text/plain", "", "a/b;c=\udcff"])
    headers = [("Content-Type", kind)]
    if choice.maybe(0.04) and body:
        encoding = choice.one(["gzip", "deflate"])
        body = gzip.compress(body, 1) if encoding == "gzip" else zlib.compress(body, 1)
        if choice.maybe(0.3):
            body = body[: choice.number(0, len(body))] + b"x"
        headers.append(("Content-Encoding", encoding))
    return body, tuple(headers)


def _limited(body: bytes) -> bytes:
    return body[:MAX_BODY_BYTES]


def _named(choice: RandomChoice, resource: Resource) -> str:
    return resource.path(NAMESPACE, choice.one(NAMES), "status" if choice.maybe(0.1) else "")


def _options(choice: RandomChoice) -> str:
    if choice.maybe(0.75):
        return ""
    pairs = choice.some(
        [
            ("dryRun", choice.one(["All", "x", ""])),
            ("fieldManager", choice.one(["m", "x" * 200, "\x01"])),
            ("fieldValidation", choice.one(["Strict", "Warn", "Ignore", "x"])),
            ("force", choice.one(["true", "x"])),
            ("pretty", "1"),
        ],
        2,
    )
    return "?" + "&".join(f"{name}={quote(value)}" for name, value in pairs) if pairs else ""


def _query(choice: RandomChoice, names: list[str] = QUERIES) -> str:
    pairs: list[str] = []
    for name in choice.some(names, 4):
        values = ["true", "0", "1", "-1", "", "x", "9" * 30, "2027-01-15T08:00:00Z", "1e5", "%ff"]
        if name.endswith("Selector"):
            values = [quote(choice.one(SELECTORS))]
        elif name == "continue":
            values = CONTINUES
        elif name in {"watch", "follow"}:
            if choice.maybe(0.05):  # the answer ends after a second
                pairs.insert(0, f"{name}=true&timeoutSeconds=1")
            continue
        pairs.append(f"{name}={choice.one(values)}")
    if choice.maybe(0.05):
        pairs.append(choice.one(["a&&=&", "%zz", "a=%", ";a=b", "a=b=c", "\udcff=1"]))
    return "?" + "&".join(pairs) if pairs else ""


def _odd_path(choice: RandomChoice) -> str:
    return choice.one(
        [
            "/",
            "//",
            "*",
            "/api/v1/namespaces/%2e%2e/pods",
            "/api/v1/namespaces/../../apis",
            f"/api/v1/namespaces/{NAMESPACE}/pods/a/b/c/d/e",
            "/api/v1/" + "x/" * 10_000,
            "/api/v1/namespaces/" + "x" * 60_000,
            "/api/v1/namespaces/" + "x" * 70_000,
            "/api/v1/%00",
            "/api/v1/namespaces/%ff%fe/pods",
            "/api/v1/namespaces/\udcff/pods",
            "/apis/x.y/v1/z",
            "/api/v1/namespaces?" + "&".join(["a=b"] * 5_000),
            "http://evil.example.com/api",
            "evil.example.com:443",
            "/api/v1/watch/namespaces/x/pods?timeoutSeconds=0",
            "/healthz/ping/../..",
            "/readyz?verbose",
            "/openapi/v3/apis/apps/v1",
            "/openapi/v3/../x",
            "/logs/../../etc/passwd",
            "no-slash",
            "/a b",
            "/\x7f",
        ]
    )


def _websocket(choice: RandomChoice) -> tuple[tuple[str, str], ...]:
    headers = [
        ("Connection", "Upgrade"),
        ("Upgrade", choice.one(["websocket", "websocket", "SPDY/3.1", "h2c", "x"])),
        ("Sec-WebSocket-Version", choice.one(["13", "13", "0", "x"])),
        ("Sec-WebSocket-Key", choice.one(["dGhlIHNhbXBsZSBub25jZQ==", "x", ""])),
        ("Sec-WebSocket-Protocol", choice.one(["v5.channel.k8s.io", "v4.channel.k8s.io", "x,,"])),
        ("X-Stream-Protocol-Version", choice.one(["v4.channel.k8s.io", "x"])),
    ]
    return tuple(each for each in headers if choice.maybe(0.9))


def _encoded(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _authorization(choice: RandomChoice) -> str:
    claims: Any = {
        "aud": choice.one([["https://kubernetes.default.svc"], "x", [], 1, None]),
        "exp": choice.one([2**40, 0, "x", 1e308, None, -1]),
        "iss": "https://kubernetes.default.svc",
        "kubernetes.io": choice.one(
            [{"namespace": "default", "serviceaccount": {"name": "default", "uid": "x"}}, 1, {}]
        ),
        "sub": "system:serviceaccount:default:default",
    }
    if choice.maybe(0.3):
        claims = mutations.odd_value(choice)
        claims = None if isinstance(claims, mutations.Raw) else claims
    head = _encoded({"alg": choice.one(["none", "HS256", "RS256", "x"]), "typ": "JWT"})
    token = f"{head}.{_encoded(claims)}.{choice.one(['', 'x', 'AAAA', '=' * 9])}"
    return choice.one(
        [
            f"Bearer {token}",
            f"Bearer {token}",
            f"bearer {token}.x",
            f"Bearer {TOKEN}x",
            f"Basic {TOKEN}",
            f"Bearer  {TOKEN} ",
            "Bearer " + "x" * 50_000,
            "Bearer " + "." * 9_000,
            "Bearer",
            "Bearer \udcff\udcfe",
            "Bearer é",
            "",
            "Basic YWRtaW46YWRtaW4=",
            "Negotiate x",
        ]
    )
