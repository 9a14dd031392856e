"""Authentication: there is a test for each way of bypassing it."""

import asyncio
import json
import socket
from contextlib import closing
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from local.apiserver.support import (
    DEADLINE,
    MAPS,
    PODS,
    SECRET,
    Api,
    config_map,
    pod,
    running_server,
)
from traincrew.local.apiserver.http.kubeconfig import write_kubeconfig
from traincrew.local.apiserver.http.server import ApiServer
from traincrew.local.apiserver.storage import Storage

LET_IN = f"Authorization: Bearer {SECRET}\n"
UNAUTHORIZED = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "Unauthorized",
    "reason": "Unauthorized",
    "code": 401,
}


async def raw(api: Api, text: str) -> tuple[int, str]:
    """Send exactly this text; return the status code and the whole response."""
    reader, writer = await asyncio.open_connection("127.0.0.1", api.server.port)
    writer.write(text.replace("\n", "\r\n").encode())
    answer = b""
    async with asyncio.timeout(DEADLINE):
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            (
                int(line.partition(b":")[2])
                for line in head.split(b"\r\n")
                if line.lower().startswith(b"content-length")
            ),
            0,
        )
        answer = head + await reader.readexactly(length)
    writer.close()
    return int(answer.split()[1]), answer.decode()


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/pods",
        "/readyz",
        "/version",
        "/",
        "//api/v1/pods",
        f"/{SECRET}/api/v1/pods",
        f"/api/v1/pods?token={SECRET}",
        "/caf%C3%A9/api",
        "/%FF%FE/api",
        "/x/../version",
    ],
)
async def test_requests_without_a_token_are_unauthorized(api: Api, path: str) -> None:
    code, answer = await raw(api, f"GET {path} HTTP/1.1\nHost: 127.0.0.1\n\n")
    assert code == 401
    assert json.loads(answer.partition("\r\n\r\n")[2]) == UNAUTHORIZED
    assert SECRET not in answer


@pytest.mark.parametrize("line", ["OPTIONS *", "CONNECT a:1", "GET http://127.0.0.1/x", "BREW /"])
async def test_unusual_requests_without_a_token_are_unauthorized(api: Api, line: str) -> None:
    code, _ = await raw(api, f"{line} HTTP/1.1\nHost: 127.0.0.1\n\n")
    assert code in {400, 401}


async def test_the_root_path_is_not_found(api: Api) -> None:
    for path in ("", "/", "?watch=1"):
        (await api.get(path)).refused(404, "NotFound")


async def test_requests_with_the_token_are_served(api: Api) -> None:
    url = f"{api.server.url}/version"
    for right in (f"Bearer {SECRET}", f"bearer  {SECRET}"):
        async with api.session.get(url, headers={"Authorization": right}) as answer:
            assert answer.status == 200
    wrongs = (f"Basic {SECRET}", "Bearer wrong", f"Bearer {SECRET} more", "Bearer", "", "Bearer é")
    for wrong in wrongs:
        async with api.session.get(url, headers={"Authorization": wrong}) as answer:
            assert answer.status == 401, wrong


async def test_service_account_tokens_are_valid_until_they_expire(api: Api) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    (await api.post(accounts, account)).ok(201)
    answer = await api.post(f"{accounts}/robot/token", {"spec": {"expirationSeconds": 600}})
    status = answer.ok(201)["status"]
    assert status["expirationTimestamp"] == "2027-01-15T08:10:00Z"
    url = f"http://127.0.0.1:{api.server.port}/version"
    headers = {"Authorization": f"Bearer {status['token']}"}
    async with api.session.get(url, headers=headers) as response:
        assert response.status == 200
    head, claims, _ = status["token"].split(".")
    async with api.session.get(
        url, headers={"Authorization": f"Bearer {head}.{claims}.forged"}
    ) as response:
        assert response.status == 401
    api.clock.now += 601
    async with api.session.get(url, headers=headers) as response:
        assert response.status == 401


async def test_the_origin_of_non_browser_clients_is_served(api: Api) -> None:
    (await api.request("GET", MAPS, headers={"Origin": "http://localhost"})).ok()


async def test_the_service_name_is_a_host_name_of_the_server(api: Api) -> None:
    for host in ("127.64.0.1", "127.64.0.1:80", "kubernetes.default.svc"):
        (await api.request("GET", MAPS, headers={"Host": host})).ok()


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", ""])
async def test_requests_from_web_pages_are_rejected(api: Api, origin: str) -> None:
    for method, body in (("GET", None), ("POST", config_map("a"))):
        answer = await api.request(method, MAPS, body, headers={"Origin": origin})
        answer.refused(403, "Forbidden", "requests from web pages are not served")
    assert (await api.get(MAPS)).ok()["items"] == []


async def exec_with(api: Api, headers: dict[str, str]) -> int:
    """The status code of the websocket handshake of an exec request."""
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Protocol": "v4.channel.k8s.io",
    }
    path = f"{PODS}/missing/exec?command=id"
    lines = "".join(f"{name}: {value}\n" for name, value in (upgrade | headers).items())
    return (await raw(api, f"GET {path} HTTP/1.1\n{LET_IN}{lines}\n"))[0]


async def test_the_official_python_client_runs_commands(api: Api) -> None:
    """Its websocket-client sends the server's own address as Origin."""
    place = f"127.0.0.1:{api.server.port}"
    for scheme in ("http", "https"):
        own = {"Host": place, "Origin": f"{scheme}://{place}"}
        assert await exec_with(api, own) == 404  # let in: there is no such pod
        assert await exec_with(api, own | {"Sec-Fetch-Mode": "websocket"}) == 403
        assert await exec_with(api, own | {"Cookie": "a=b"}) == 403


@pytest.mark.parametrize(
    "change",
    [
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://localhost:PORT"},
        {"Origin": "http://127.0.0.1"},
        {"Origin": "file://127.0.0.1:PORT"},
        {"Origin": "http://127.0.0.1:PORT/"},
        {"Origin": "null"},
        {"Origin": "http://evil.example:PORT", "Host": "evil.example:PORT"},
    ],
)
async def test_websockets_of_web_pages_are_rejected(api: Api, change: dict[str, str]) -> None:
    headers = {"Host": "127.0.0.1:PORT"} | change
    port = str(api.server.port)
    headers = {name: value.replace("PORT", port) for name, value in headers.items()}
    assert await exec_with(api, headers) == 403


async def test_the_servers_own_origin_is_for_requests_that_read(api: Api) -> None:
    """Watches of fabric8 have it, also those over plain HTTP."""
    own = {"Origin": f"http://127.0.0.1:{api.server.port}"}
    (await api.get(MAPS, headers=own)).ok()
    async with api.watch(MAPS, headers=own) as watching:
        (await api.post(MAPS, config_map("a"))).ok(201)
        assert await watching.names(1) == [("ADDED", "a")]
    (await api.post(MAPS, config_map("b"), headers=own)).refused(403, "Forbidden")
    (await api.delete(f"{MAPS}/a", headers=own)).refused(403, "Forbidden")
    (await api.get(MAPS, headers=own | {"Cookie": "a=b"})).refused(403, "Forbidden")


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "127.0.0.1@evil", "10.0.0.1"],
)
async def test_rebound_host_names_are_rejected(api: Api, host: str) -> None:
    answer = await api.get("/version", headers={"Host": host})
    answer.refused(403, "Forbidden", "requests for other hosts are not served")


async def test_a_request_without_a_host_is_rejected(api: Api) -> None:
    code, _ = await raw(api, f"GET /version HTTP/1.0\n{LET_IN}\n")
    assert code == 403


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "localhost:1234", "[::1]:80"])
async def test_names_of_this_machine_are_served(api: Api, host: str) -> None:
    (await api.get("/version", headers={"Host": host})).ok()


async def test_additional_host_names_are_served() -> None:
    async with running_server(hosts=["kubernetes.default.svc"]) as api:
        (await api.get("/version", headers={"Host": "kubernetes.default.svc"})).ok()


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""],
)
async def test_bodies_that_a_web_form_can_send_are_rejected(api: Api, content_type: str) -> None:
    for method, path in (("POST", MAPS), ("PUT", f"{MAPS}/a"), ("DELETE", f"{MAPS}/a")):
        body = json.dumps(config_map("a"))
        answer = await raw(
            api,
            f"{method} {path} HTTP/1.1\nHost: 127.0.0.1\n{LET_IN}Content-Type: {content_type}\n"
            f"Content-Length: {len(body)}\n\n{body}",
        )
        assert answer[0] == 415
        assert "application/json" in answer[1]
    assert (await api.get(MAPS)).ok()["items"] == []


async def test_a_body_without_a_content_type_is_json(api: Api) -> None:
    body = json.dumps(config_map("a"))

    async def send(method: str, path: str) -> int:
        head = f"{method} {path} HTTP/1.1\nHost: 127.0.0.1\n{LET_IN}"
        code, _ = await raw(api, f"{head}Content-Length: {len(body)}\n\n{body}")
        return code

    assert await send("POST", MAPS) == 201
    assert await send("PUT", f"{MAPS}/a") == 200
    assert await send("PATCH", f"{MAPS}/a") == 415  # there are several kinds of JSON


@pytest.mark.parametrize("site", ["cross-site", "same-site", "same-origin"])
async def test_cross_site_fetches_are_rejected(api: Api, site: str) -> None:
    (await api.get("/version", headers={"Sec-Fetch-Site": site})).refused(403, "Forbidden")
    (await api.get("/version", headers={"Sec-Fetch-Site": "none"})).ok()  # typed by the user


@pytest.mark.parametrize(
    "change",
    [
        {"Origin": "http://evil.example"},
        {"Host": "evil.example"},
        {"Authorization": "Bearer wrong-wrong-wrong"},
    ],
)
async def test_websocket_handshakes_are_checked_too(api: Api, change: dict[str, str]) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await api.session.ws_connect(
            api.server.url + f"{PODS}/a/exec?command=id",
            headers=change,
            protocols=["v5.channel.k8s.io"],
        )
    assert refused.value.status in {401, 403}


def listening(port: int) -> set[str]:
    """The local addresses with a listener on a port, in the kernel's notation."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {line[1] for line in lines if line[1].endswith(f":{port:04X}") and line[3] == "0A"}


async def test_it_listens_on_the_loopback_interface_only(api: Api) -> None:
    assert listening(api.server.port) == {f"0100007F:{api.server.port:04X}"}
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.2", api.server.port), timeout=1)


@pytest.mark.parametrize("secret", ["", "short", "long-enough-but with-a-space", "é" * 20])
def test_weak_secrets_are_rejected(secret: str) -> None:
    with closing(Storage(None)) as storage, pytest.raises(ValueError, match="secret: 16 or more"):
        ApiServer(storage, secret=secret)


async def test_bodies_over_three_mebibytes_are_rejected(api: Api) -> None:
    answer = await api.post(MAPS, config_map("a", {"key": "x" * (3 * 1024 * 1024)}))
    answer.refused(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728")
    (await api.post(MAPS, config_map("b", {"key": "x" * 1_000_000}))).ok(201)


def test_kubeconfig_files_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, {"kind": "Config"})
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    write_kubeconfig(path, {"kind": "Config", "again": True})
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_text()) == {"kind": "Config", "again": True}
    assert [file.name for file in tmp_path.iterdir()] == ["kubeconfig"]
    with pytest.raises(FileNotFoundError):
        write_kubeconfig(tmp_path / "missing" / "kubeconfig", {})


async def test_the_kubeconfig_document_has_the_server_url_and_token(api: Api) -> None:
    document = api.server.kubeconfig("team")
    context = document["contexts"][0]
    assert document["current-context"] == context["name"]
    assert context["context"]["namespace"] == "team"
    server: Any = document["clusters"][0]["cluster"]["server"]
    async with api.session.get(f"{server}/readyz") as answer:
        assert await answer.text() == "ok"


async def test_internal_errors_are_reported(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr("traincrew.local.apiserver.writes.verbs.Verbs.insert", broken)
    answer = await api.post(PODS, pod("a"))
    answer.refused(500, "InternalError")
    assert "broken on purpose" in answer.document["message"]
    assert "broken on purpose" in caplog.text
    assert (await api.get("/readyz")).body == b"ok"
