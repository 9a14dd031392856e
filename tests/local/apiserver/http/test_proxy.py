"""HTTP requests through the API server to programs in pods."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from local.apiserver.support import PODS, Api, pod

SERVICES = PODS.replace("pods", "services")
HOST = "127.0.0.1"


def service(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}}


@asynccontextmanager
async def program() -> AsyncIterator[int]:
    """The port of a web server, as a pod would run it."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == "/page":
            return web.Response(text='<a href="/there">there</a>', content_type="text/html")
        if request.path == "/moved":
            return web.Response(status=302, headers={"Location": "/page?a=b"})
        text = f"{request.method} {request.path_qs} {await request.text()}"
        assert "Authorization" not in request.headers
        assert "Impersonate-User" not in request.headers
        return web.Response(text=text, headers={"X-Mine": "yes"})

    application = web.Application()
    application.router.add_route("*", "/{rest:.*}", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, HOST, 0)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@pytest.fixture
async def port(api: Api) -> AsyncIterator[int]:
    """The port of a pod `a`, which has a Service `web`."""
    async with program() as number:
        body = pod("a")
        body["spec"]["containers"][0]["ports"] = [{"name": "http", "containerPort": number}]
        (await api.post(PODS, body)).ok(201)
        (await api.patch(f"{PODS}/a/status", {"status": {"podIP": HOST}})).ok()
        (await api.post(SERVICES, service("web"))).ok(201)
        ends = {
            "metadata": {"name": "web"},
            "subsets": [{"addresses": [{"ip": HOST}], "ports": [{"port": number}]}],
        }
        (await api.post(SERVICES.replace("services", "endpoints"), ends)).ok(201)
        yield number


async def test_requests_are_forwarded_to_a_pod(api: Api, port: int) -> None:
    for name in ("a", "a:http", f"a:{port}", f"http:a:{port}"):
        answer = await api.get(f"{PODS}/{name}/proxy/some/path", q="1 2")
        assert answer.body.decode().strip() == "GET /some/path?q=1+2"
        assert answer.headers["X-Mine"] == "yes"
    answer = await api.post(f"{PODS}/a/proxy", {"a": 1})
    assert answer.body.decode().startswith("POST / {")
    jane = {"Impersonate-User": "jane", "Impersonate-Group": "system:masters"}
    assert (await api.get(f"{PODS}/a/proxy/x", headers=jane)).code == 200
    (await api.get(f"{PODS}/a/proxy/x", headers={"Impersonate-User": "jane"})).refused(403)


async def test_requests_are_forwarded_to_a_service(api: Api, port: int) -> None:
    assert port
    answer = await api.get(f"{SERVICES}/web/proxy/x")
    assert answer.body.decode().strip() == "GET /x"
    (await api.get(f"{SERVICES}/web:nothing/proxy/")).refused(400)


async def test_links_and_redirects_are_rewritten_to_the_proxy(api: Api, port: int) -> None:
    assert port
    base = f"{PODS}/a/proxy"
    assert f'href="{base}/there"' in (await api.get(f"{base}/page")).body.decode()
    # The client follows the redirect.
    assert b">there</a>" in (await api.get(f"{base}/moved")).body


async def test_missing_targets_are_reported(api: Api) -> None:
    (await api.get(f"{PODS}/none/proxy/")).refused(404)
    (await api.post(PODS, pod("b"))).ok(201)
    (await api.get(f"{PODS}/b/proxy/")).refused(400, message="pod b has no address yet")
    (await api.post(SERVICES, service("lonely"))).ok(201)
    (await api.get(f"{SERVICES}/lonely/proxy/")).refused(
        503, "ServiceUnavailable", 'no endpoints available for service "default/lonely"'
    )
    (await api.patch(f"{PODS}/b/status", {"status": {"podIP": "127.0.0.1"}})).ok()
    (await api.get(f"{PODS}/b:1/proxy/")).refused(503)
