"""Who may read the operator's metrics: answers of the API server, kept for a short time."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import aiohttp
import msgspec
import pytest

from traincrew.engine.observability import Access, HealthServer, Metrics
from traincrew.engine.testing import FakeServer, simulate
from traincrew.operator.manifests import rbac
from traincrew.operator.manifests.rbac import metrics_rules
from traincrew.operator.metricsaccess import (
    ALLOWED_SECONDS,
    MAX_ANSWERS,
    MAX_REVIEWS,
    REFUSED_SECONDS,
    MetricsAccess,
    self_signed,
)

if TYPE_CHECKING:
    from harness import Cluster
    from traincrew.engine.client import HttpRequest

PROMETHEUS = {"username": "system:serviceaccount:monitoring:prometheus", "groups": ["g"]}


class Reviewer:
    """A scripted API server that knows two tokens, of which one may read the metrics."""

    def __init__(self) -> None:
        self.server = FakeServer()
        self.server.before_write = self._answer
        self.reviews: list[Any] = []
        self._numbers = itertools.count()
        self.access = MetricsAccess(self.server.client(), self.server.clock)

    def _answer(self, request: HttpRequest) -> None:
        document = msgspec.json.decode(request.body or b"{}")
        self.reviews.append((document["kind"], document["spec"]))
        spec = document["spec"]
        if document["kind"] == "TokenReview":
            known = spec["token"] in {"prometheus", "somebody"}
            user = PROMETHEUS if spec["token"] == "prometheus" else {"username": "somebody"}
            document["status"] = {"authenticated": known, "user": user if known else {}}
        else:
            document["status"] = {"allowed": spec["user"] == PROMETHEUS["username"]}
        document["metadata"] = {"name": f"review-{next(self._numbers)}"}
        request.body = msgspec.json.encode(document)

    async def check(self, token: str) -> int:
        return await self.access.check(f"Bearer {token}")


def test_the_api_server_decides() -> None:
    async def main() -> None:
        reviewer = Reviewer()
        assert await reviewer.check("prometheus") == 200
        assert reviewer.reviews == [
            ("TokenReview", {"token": "prometheus"}),
            (
                "SubjectAccessReview",
                {
                    "user": PROMETHEUS["username"],
                    "groups": ["g"],
                    "uid": "",
                    "extra": {},
                    "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
                },
            ),
        ]
        assert await reviewer.check("somebody") == 403
        assert await reviewer.check("forged") == 401

    simulate(main())


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Basic YTpi", "Bearer \xe9", "prometheus"]
)
def test_nobody_is_asked_about_what_is_no_token(header: str) -> None:
    async def main() -> None:
        reviewer = Reviewer()
        assert await reviewer.access.check(header) == 401
        assert reviewer.reviews == []

    simulate(main())


def test_answers_are_used_again_for_a_while() -> None:
    async def main() -> None:
        reviewer = Reviewer()
        for token, seconds, asked in (
            ("prometheus", ALLOWED_SECONDS, 2),
            ("somebody", REFUSED_SECONDS, 2),
            ("forged", REFUSED_SECONDS, 1),
        ):
            reviewer.reviews.clear()
            for _ in range(20):
                await reviewer.check(token)
            await asyncio.sleep(seconds - 1)
            await reviewer.check(token)
            assert len(reviewer.reviews) == asked
            await asyncio.sleep(1)
            await reviewer.check(token)
            assert len(reviewer.reviews) == 2 * asked

    simulate(main())


def test_many_tokens_take_neither_memory_nor_the_api_server() -> None:
    async def main() -> None:
        reviewer = Reviewer()
        reviewer.server.fail("POST", "tokenreviews", delay=1.0, times=100)
        start = reviewer.server.clock.monotonic()
        await asyncio.gather(*(reviewer.check(f"forged-{number}") for number in range(100)))
        took = reviewer.server.clock.monotonic() - start
        assert took == pytest.approx(100 / MAX_REVIEWS, abs=1)
        for number in range(2 * MAX_ANSWERS):
            await reviewer.check(f"more-{number}")
        assert len(reviewer.access._answers) == MAX_ANSWERS

    simulate(main())


def test_an_api_server_that_does_not_answer() -> None:
    async def main() -> None:
        reviewer = Reviewer()
        reviewer.server.fail("POST", "subjectaccessreviews", status=500, reason="InternalError")
        assert await reviewer.check("prometheus") == 503
        assert await reviewer.check("prometheus") == 200

    simulate(main())


async def test_only_metrics_are_served_over_https() -> None:
    async def check(authorization: str) -> int:
        return {"Bearer good": 200, "Bearer other": 403}.get(authorization, 401)

    server = HealthServer(
        Metrics(), host="127.0.0.1", access=Access(self_signed("127.0.0.1"), check)
    )
    await server.start()
    try:
        url = f"https://127.0.0.1:{server.port}"
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:
            for token, path, code in (
                ("good", "/metrics", 200),
                ("other", "/metrics", 403),
                ("none", "/metrics", 401),
                ("good", "/healthz", 404),
                ("good", "/readyz", 404),
            ):
                headers = {"Authorization": f"Bearer {token}"}
                async with session.get(url + path, headers=headers) as response:
                    assert response.status == code
                    assert ("workqueue_depth" in await response.text()) == (code == 200)
                    assert (response.headers.get("WWW-Authenticate") == "Bearer") == (code == 401)
            with pytest.raises(aiohttp.ClientError):
                await session.get(f"http://127.0.0.1:{server.port}/metrics")
    finally:
        await server.stop()


async def test_the_operator_asks_the_cluster(
    cluster: Cluster, unused_tcp_port_factory: Any
) -> None:
    health, secure = unused_tcp_port_factory(), unused_tcp_port_factory()
    await cluster.start_operator(
        metrics_address=f"127.0.0.1:{health}", metrics_secure_address=f"127.0.0.1:{secure}"
    )
    token = await _token_of_a_reader(cluster)
    connector = aiohttp.TCPConnector(ssl=False)
    async with aiohttp.ClientSession(connector=connector) as session:
        async with session.get(f"http://127.0.0.1:{health}/readyz") as response:
            assert response.status == 200
        async with session.get(f"http://127.0.0.1:{health}/metrics") as response:
            assert response.status == 404
        url = f"https://127.0.0.1:{secure}/metrics"
        async with session.get(url) as response:
            assert response.status == 401
        async with session.get(url, headers={"Authorization": f"Bearer {token}"}) as response:
            assert response.status == 200
            assert "controller_runtime_reconcile_total" in await response.text()


async def _token_of_a_reader(cluster: Cluster) -> str:
    """Return the token of an account that may read the metrics, as the guide sets it up."""
    role = {"rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]}
    reference = {"apiGroup": rbac.RBAC, "kind": "ClusterRole", "name": "reader"}
    subject = {"kind": "ServiceAccount", "name": "prometheus", "namespace": "default"}
    binding = {"roleRef": reference, "subjects": [subject]}
    roles = f"/apis/{rbac.RBAC}/v1"
    for path, document in (
        ("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "prometheus"}}),
        (f"{roles}/clusterroles", {"metadata": {"name": "reader"}, **role}),
        (f"{roles}/clusterrolebindings", {"metadata": {"name": "reader"}, **binding}),
    ):
        await cluster.client.request("POST", path, body=document)
    answer = await cluster.client.request(
        "POST", "/api/v1/namespaces/default/serviceaccounts/prometheus/token", body={"spec": {}}
    )
    token: str = msgspec.json.decode(answer)["status"]["token"]
    return token


def test_the_rules_are_those_of_the_requests() -> None:
    found = {(*rule["apiGroups"], *rule["resources"], *rule["verbs"]) for rule in metrics_rules()}
    assert found == {
        ("authentication.k8s.io", "tokenreviews", "create"),
        ("authorization.k8s.io", "subjectaccessreviews", "create"),
    }
