"""The action that a request is."""

import pytest

from traincrew.local.apiserver.authorization import Attributes, request_attributes
from traincrew.local.apiserver.requests import parse_path, split_path

PODS = "/api/v1/namespaces/n/pods"


@pytest.mark.parametrize(
    ("request_line", "expected"),
    [
        (f"GET {PODS}", Attributes("list", "", "pods", "", "n")),
        ("GET /api/v1/pods", Attributes("list", "", "pods")),
        (f"GET {PODS}?watch=1", Attributes("watch", "", "pods", "", "n")),
        (f"GET {PODS}?watch", Attributes("watch", "", "pods", "", "n")),
        (f"GET {PODS}?watch=false", Attributes("list", "", "pods", "", "n")),
        (f"GET {PODS}?watch=0&watch=1", Attributes("list", "", "pods", "", "n")),
        (f"GET {PODS}/p", Attributes("get", "", "pods", "", "n", "p")),
        (f"HEAD {PODS}/p", Attributes("get", "", "pods", "", "n", "p")),
        (f"GET {PODS}/p?watch=1", Attributes("watch", "", "pods", "", "n", "p")),
        (f"GET {PODS}/p/log?watch=1", Attributes("get", "", "pods", "log", "n", "p")),
        (f"POST {PODS}", Attributes("create", "", "pods", "", "n")),
        (f"PUT {PODS}/p/status", Attributes("update", "", "pods", "status", "n", "p")),
        (f"PATCH {PODS}/p", Attributes("patch", "", "pods", "", "n", "p")),
        (f"DELETE {PODS}/p", Attributes("delete", "", "pods", "", "n", "p")),
        (f"DELETE {PODS}", Attributes("deletecollection", "", "pods", "", "n")),
        (f"POST {PODS}/p/proxy/a/b", Attributes("create", "", "pods", "proxy", "n", "p")),
        (f"OPTIONS {PODS}/p", Attributes("", "", "pods", "", "n", "p")),
        ("GET /apis/apps/v1/deployments", Attributes("list", "apps", "deployments")),
        ("GET /api/v1/namespaces", Attributes("list", "", "namespaces")),
        ("GET /api/v1/namespaces/n", Attributes("get", "", "namespaces", "", "n", "n")),
        (
            "PUT /api/v1/namespaces/n/finalize",
            Attributes("update", "", "namespaces", "finalize", "n", "n"),
        ),
        (
            f"GET {PODS}?fieldSelector=metadata.name%3Dp",
            Attributes("list", "", "pods", "", "n", "p"),
        ),
        (
            f"GET {PODS}?watch=1&fieldSelector=spec.nodeName%3Dx,metadata.name%3D%3Dp",
            Attributes("watch", "", "pods", "", "n", "p"),
        ),
        # Neither selects the object p only.
        (
            f"GET {PODS}?fieldSelector=metadata.name!%3Dp",
            Attributes("list", "", "pods", "", "n"),
        ),
        (
            f"GET {PODS}?fieldSelector=spec.nodeName!%3Dx%5C,metadata.name%3Dp",
            Attributes("list", "", "pods", "", "n"),
        ),
        (
            f"DELETE {PODS}?fieldSelector=metadata.name%3Dp",
            Attributes("deletecollection", "", "pods", "", "n"),
        ),
        ("GET /version", Attributes("get", path="/version", is_resource=False)),
        ("GET /", Attributes("get", path="/", is_resource=False)),
        ("GET /apis/apps/v1", Attributes("get", path="/apis/apps/v1", is_resource=False)),
        ("POST /api/v1/", Attributes("post", path="/api/v1/", is_resource=False)),
    ],
)
def test_requests(request_line: str, expected: Attributes) -> None:
    method, _, target = request_line.partition(" ")
    segments, query = split_path(target)
    assert request_attributes(method, segments, query) == expected


PARTS = ("namespaces", "n", "pods", "status", "finalize", "x%2Fy", "")


@pytest.mark.parametrize("root", ["/api/v1", "/apis/apps/v1", "/api/", "//api/v1"])
@pytest.mark.parametrize("first", PARTS)
@pytest.mark.parametrize("second", PARTS)
def test_what_is_authorized_is_what_is_served(root: str, first: str, second: str) -> None:
    for rest in ((), *((part,) for part in PARTS), ("pods", "p"), ("pods", "p", "exec")):
        segments, _ = split_path("/".join((root, first, second, *rest)))
        target = parse_path(segments)
        if target is None or (target.plural == "namespaces" and target.namespace is not None):
            continue  # not served as a resource
        action = request_attributes("GET", segments, "")
        assert action.is_resource
        assert (action.group, action.resource, action.name, action.subresource) == (
            target.group,
            target.plural,
            target.name or "",
            target.subresource or "",
        )
        assert action.namespace == (
            target.name or "" if target.plural == "namespaces" else target.namespace or ""
        )
