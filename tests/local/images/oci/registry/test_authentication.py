"""Who is sent which credentials, and what users read when they are refused."""

import asyncio
import base64
import json
from pathlib import Path

import pytest
from aiohttp import web

from local.images.oci.registry.support import (
    Puller,
    Registry,
    digest,
    keyring,
    login,
    refused,
    secret,
    serving,
)
from traincrew.local.images.errors import ImagePullError
from traincrew.local.images.oci.registry import PullSecret, user_keyring

USER, PASSWORD = "reader", "open sesame"


@pytest.fixture
def closed(registry: Registry) -> Registry:
    """Return a registry that wants credentials."""
    registry.add("1", b"one", b"two")
    registry.users[USER] = PASSWORD
    registry.scheme = "bearer"
    return registry


async def refusal_of(puller: Puller, image: str, *secrets: PullSecret) -> str:
    with pytest.raises(ImagePullError) as failure:
        await puller(image, keyring(*secrets))
    assert failure.value.permanent
    message = failure.value.message
    assert PASSWORD not in message
    assert login(USER, PASSWORD)["auth"] not in message
    assert "\n" not in message
    return message


@pytest.mark.parametrize("scheme", ["basic", "bearer"])
async def test_right_credentials_open_it(closed: Registry, puller: Puller, scheme: str) -> None:
    closed.scheme = scheme
    words = secret({closed.host: login(USER, PASSWORD)})
    await puller(f"{closed.host}/train:1", keyring(words))
    assert set(puller.store.layers.values()) == {b"one", b"two"}
    assert closed.tokens_given == (1 if scheme == "bearer" else 0)


async def test_an_open_registry_gets_no_credentials(closed: Registry, puller: Puller) -> None:
    closed.scheme = ""
    await puller(f"{closed.host}/train:1", keyring(secret({closed.host: login(USER, PASSWORD)})))
    assert closed.sent() == {None}


async def test_anybody_may_get_a_token(closed: Registry, puller: Puller) -> None:
    closed.users.clear()
    closed.scheme = "bearer"
    await puller(f"{closed.host}/train:1")
    assert closed.sent() == {None, "Bearer t1"}


@pytest.mark.parametrize("scheme", ["basic", "bearer"])
async def test_no_credentials_say_where_they_were_looked_for(
    closed: Registry, puller: Puller, scheme: str
) -> None:
    closed.scheme = scheme
    message = await refusal_of(
        puller, f"{closed.host}/train:1", secret({"ghcr.io": login(USER, PASSWORD)})
    )
    assert "It wants credentials, and none were found" in message
    assert f"secret default/login: has none for {closed.host}, only for ghcr.io" in message
    assert "/nonexistent/config.json (DOCKER_CONFIG): does not exist" in message
    assert f"docker login {closed.host}" in message


@pytest.mark.parametrize("scheme", ["basic", "bearer"])
async def test_wrong_credentials_say_which(closed: Registry, puller: Puller, scheme: str) -> None:
    closed.scheme = scheme
    words = secret({closed.host: login(USER, PASSWORD + "!")})
    message = await refusal_of(puller, f"{closed.host}/train:1", words)
    assert "did not accept the credentials of secret default/login: " in message
    assert f"data[.dockerconfigjson].auths[{closed.host}]" in message


@pytest.mark.parametrize("scheme", ["basic", "bearer"])
async def test_several_are_tried_in_order(closed: Registry, puller: Puller, scheme: str) -> None:
    closed.scheme = scheme
    wrong = secret({f"{closed.host}/train": login(USER, "wrong")}, "default/first")
    right = secret({closed.host: login(USER, PASSWORD)}, "default/second")
    await puller(f"{closed.host}/train:1", keyring(wrong, right))
    assert puller.store.images


async def test_expired_credentials_are_reported(closed: Registry, puller: Puller) -> None:
    async def expired(request: web.Request) -> web.StreamResponse | None:
        if request.path != "/token" or "Authorization" not in request.headers:
            return None
        return refused(401, "DENIED", "Your authorization token has expired. Reauthenticate")

    closed.hook = expired
    words = secret({closed.host: login(USER, PASSWORD)})
    message = await refusal_of(puller, f"{closed.host}/train:1", words)
    assert "The credentials of secret default/login" in message
    assert "have expired" in message


@pytest.mark.parametrize("status", [401, 403])
async def test_credentials_without_rights_are_reported(
    closed: Registry, puller: Puller, status: int
) -> None:
    async def denying(request: web.Request) -> web.StreamResponse | None:
        if not request.headers.get("Authorization", "").startswith("Bearer "):
            return None
        return refused(status, "DENIED", "requested access to the resource is denied")

    closed.hook = denying
    words = secret({closed.host: login(USER, PASSWORD)})
    message = await refusal_of(puller, f"{closed.host}/train:1", words)
    assert "may not pull it" in message
    assert "requested access to the resource is denied" in message


async def test_a_private_image_that_is_hidden_from_strangers(
    closed: Registry, puller: Puller
) -> None:
    async def hiding(request: web.Request) -> web.StreamResponse | None:
        if "Authorization" not in request.headers and "/manifests/" in request.path:
            return refused(404, "NAME_UNKNOWN", "no such repository")
        return None

    closed.hook = hiding
    words = secret({closed.host: login(USER, PASSWORD)})
    await puller(f"{closed.host}/train:1", keyring(words))
    assert puller.store.images
    puller.store.images.clear()
    with pytest.raises(ImagePullError, match="it may not be seen without credentials"):
        await puller(f"{closed.host}/train:1")


async def test_a_token_that_ends_early_is_renewed_once(closed: Registry, puller: Puller) -> None:
    async def forgetful(request: web.Request) -> None:
        if "/blobs/" in request.path and closed.tokens_given == 1:
            closed.valid_tokens.clear()

    closed.hook = forgetful
    words = secret({closed.host: login(USER, PASSWORD)})
    await puller(f"{closed.host}/train:1", keyring(words))
    assert closed.tokens_given == 2


async def test_a_token_is_renewed_before_it_ends(closed: Registry, puller: Puller) -> None:
    closed.valid_tokens.add("short")
    closed.token_answer = {"access_token": "short", "expires_in": 1e-9}
    words = secret({closed.host: login(USER, PASSWORD)})
    await puller(f"{closed.host}/train:1", keyring(words))
    assert closed.tokens_given > 2


async def test_the_scope_of_the_registry_is_asked_for_as_well(
    closed: Registry, puller: Puller
) -> None:
    scopes: list[list[str]] = []

    async def listening(request: web.Request) -> None:
        if request.path == "/token":
            scopes.append(request.query.getall("scope"))

    closed.hook = listening
    await puller(f"{closed.host}/train:1", keyring(secret({closed.host: login(USER, PASSWORD)})))
    assert scopes == [["repository:train:pull", "repository:x:pull"]]


async def test_identity_tokens_are_exchanged(closed: Registry, puller: Puller) -> None:
    closed.identity_tokens.add("refresh-me-please")
    words = secret({closed.host: {"auth": "", "identitytoken": "refresh-me-please"}})
    await puller(f"{closed.host}/train:1", keyring(words))
    assert ("POST", "/token", None) in closed.log
    closed.identity_tokens.clear()
    closed.valid_tokens.clear()
    puller.store.images.clear()
    message = await refusal_of(puller, f"{closed.host}/train:1", words)
    assert "did not accept the credentials of secret default/login" in message
    assert "refresh-me-please" not in message


async def test_a_redirect_carries_no_credentials(closed: Registry, puller: Puller) -> None:
    elsewhere = Registry()
    async with serving(elsewhere) as host:
        elsewhere.add("1", b"one", b"two")

        async def moving(request: web.Request) -> web.StreamResponse | None:
            if "/blobs/" not in request.path or "Authorization" not in request.headers:
                return None
            address = f"http://user:word@{host}{request.path}?signature=very-secret"
            return web.Response(status=307, headers={"Location": address})

        closed.hook = moving
        words = secret({closed.host: login(USER, PASSWORD)})
        await puller(f"{closed.host}/train:1", keyring(words))
        assert len(elsewhere.log) == 3
        assert elsewhere.sent() == {None}


@pytest.mark.parametrize("status", [400, 401, 403])
async def test_an_object_store_that_refuses_is_asked_again(
    closed: Registry, puller: Puller, status: int
) -> None:
    """The signature of an address may have ended before it was used."""
    elsewhere = Registry()
    refusals = iter([status])
    async with serving(elsewhere) as host:
        elsewhere.add("1", b"one", b"two")

        async def moving(request: web.Request) -> web.StreamResponse | None:
            if "/blobs/" not in request.path or "Authorization" not in request.headers:
                return None
            return web.Response(status=307, headers={"Location": f"http://{host}{request.path}"})

        async def refusing(_request: web.Request) -> web.StreamResponse | None:
            code = next(refusals, None)
            return None if code is None else web.Response(status=code, text="<Error/>")

        closed.hook, elsewhere.hook = moving, refusing
        words = secret({closed.host: login(USER, PASSWORD)})
        await puller(f"{closed.host}/train:1", keyring(words))
        assert closed.tokens_given == 1


async def test_a_redirect_to_another_port_and_back_carries_none(
    closed: Registry, puller: Puller
) -> None:
    elsewhere = Registry()
    async with serving(elsewhere) as host:

        async def away(request: web.Request) -> web.StreamResponse | None:
            if "/blobs/" in request.path and "Authorization" in request.headers:
                return web.Response(status=307, headers={"Location": f"http://{host}/back"})
            return None

        async def back(_request: web.Request) -> web.StreamResponse:
            target = f"http://{closed.host}/v2/train/blobs/{digest(b'one')}"
            return web.Response(status=302, headers={"Location": target})

        closed.hook, elsewhere.hook = away, back
        words = secret({closed.host: login(USER, PASSWORD)})
        with pytest.raises(ImagePullError):
            await puller(f"{closed.host}/train:1", keyring(words))
        assert elsewhere.sent() == {None}
        assert ("GET", f"/v2/train/blobs/{digest(b'one')}", None) in closed.log


@pytest.mark.parametrize(
    "location",
    ["ftp://127.0.0.1/x", "http://[/x", "file:///etc/passwd", "http://a b/", "//:0/"],
)
async def test_redirects_to_nowhere_are_refused(
    registry: Registry, puller: Puller, location: str
) -> None:
    async def moving(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": location})

    registry.hook = moving
    with pytest.raises(ImagePullError, match="redirects to no valid address"):
        await puller(f"{registry.host}/train:1")


async def test_redirects_end(registry: Registry, puller: Puller) -> None:
    async def moving(request: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": str(request.url)})

    registry.hook = moving
    with pytest.raises(ImagePullError, match="more than 5 redirects"):
        await puller(f"{registry.host}/train:1")


async def test_a_redirect_of_a_refresh_token_is_refused(closed: Registry, puller: Puller) -> None:
    async def moving(request: web.Request) -> web.StreamResponse | None:
        if request.method != "POST":
            return None
        return web.Response(status=307, headers={"Location": "http://127.0.0.1:9/token"})

    closed.hook = moving
    words = secret({closed.host: {"identitytoken": "refresh-me-please"}})
    message = await refusal_of(puller, f"{closed.host}/train:1", words)
    assert "redirects credentials" in message


@pytest.mark.parametrize("realm", ["", "gopher://x/", "http://u:p@127.0.0.1/token", "http://["])
async def test_a_realm_that_is_none_is_refused(
    closed: Registry, puller: Puller, realm: str
) -> None:
    closed.realm = realm or "-"
    words = secret({closed.host: login(USER, PASSWORD)})
    message = await refusal_of(puller, f"{closed.host}/train:1", words)
    assert "names no valid server of tokens" in message


@pytest.mark.parametrize(
    "answer",
    [{"token": ""}, {"token": "a\nb"}, {"token": 7}, {"expires_in": 3}, {"token": "x" * 70_000}],
)
async def test_tokens_that_are_none_are_refused(
    closed: Registry, puller: Puller, answer: dict[str, object]
) -> None:
    closed.token_answer = answer
    words = secret({closed.host: login(USER, PASSWORD)})
    message = await refusal_of(puller, f"{closed.host}/train:1", words)
    assert "answered with " in message


async def test_what_a_registry_repeats_is_not_shown(closed: Registry, puller: Puller) -> None:
    closed.scheme = "basic"
    closed.users[USER] = "short"

    async def echoing(request: web.Request) -> web.StreamResponse | None:
        header = request.headers.get("Authorization")
        if header is None:
            return None
        _, _, password = base64.b64decode(header[6:]).decode().partition(":")
        return refused(401, "NO", f"bad header {header}, bad word {password}\x1b[2J")

    closed.hook = echoing
    words = secret({closed.host: login(USER, "s3cr3t")})
    message = await refusal_of(puller, f"{closed.host}/train:1", words)
    assert "bad header" in message
    assert "bad word …" in message
    assert "s3cr3t" not in message
    assert login(USER, "s3cr3t")["auth"] not in message
    assert "\x1b" not in message


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("basic authentication required", "basic authentication required"),
        ("invalid token signature", "invalid token signature"),
        ("token: abcdefgh is bad", "… is bad"),
        ("Bearer abcdefghijklmnopqrstuvwxyz failed", "… failed"),
        ("eyJhbGciOiJ.eyJzdWIi.c2ln is old", "… is old"),
        ("eyJ" * 20_000, "eyJ" * 100),
        ("Bearer " * 9_000, "Bearer Bearer"),
        ("a\n b\tc", "a b c"),
    ],
)
async def test_what_looks_like_a_token_is_not_shown(
    closed: Registry, puller: Puller, text: str, shown: str
) -> None:
    async def failing(_request: web.Request) -> web.StreamResponse:
        return refused(400, "NO", text)

    closed.hook = failing
    message = await refusal_of(puller, f"{closed.host}/train:1")
    assert f"400 Bad Request: {shown}" in message


async def test_a_broken_file_does_not_stop_an_open_registry(
    closed: Registry, puller: Puller, tmp_path: Path
) -> None:
    broken = tmp_path / "auth.json"
    broken.write_text("{")
    own = user_keyring([], {"HOME": "/nonexistent", "REGISTRY_AUTH_FILE": str(broken)})
    closed.scheme = ""
    await puller(f"{closed.host}/train:1", own)
    puller.store.images.clear()
    closed.scheme = "basic"
    with pytest.raises(ImagePullError, match=r"auth.json \(REGISTRY_AUTH_FILE\): is not JSON"):
        await puller(f"{closed.host}/train:1", own)


async def test_a_proxy_is_used_and_its_password_not_shown(
    puller: Puller, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = Registry()
    asked: list[tuple[str, str | None]] = []

    async def listening(request: web.Request) -> None:
        asked.append((str(request.url), request.headers.get("Proxy-Authorization")))

    from traincrew.local.images.oci.registry import RegistrySettings
    from traincrew.local.images.oci.registry.settings import HostSettings

    puller.settings = RegistrySettings({"registry.example": HostSettings(plain_http=True)})
    async with serving(proxy) as host:
        proxy.add("1", b"one")
        proxy.hook = listening
        monkeypatch.setenv("HTTP_PROXY", f"http://me:proxy-word@{host}")
        await puller("registry.example/train:1")
        assert asked[0][0] == "http://registry.example/v2/train/manifests/1"
        assert asked[0][1] is not None
        monkeypatch.setenv("NO_PROXY", "registry.example")
        with pytest.raises(ImagePullError) as failure:
            await puller("registry.example/train:2")
        assert "by the proxy" not in failure.value.message
    monkeypatch.delenv("NO_PROXY")
    with pytest.raises(ImagePullError, match="by the proxy of HTTP_PROXY") as failure:
        await puller("registry.example/train:2")
    assert "proxy-word" not in failure.value.message


async def test_passwords_of_netrc_stay_there(
    registry: Registry, puller: Puller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password word\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    registry.add("1", b"one")
    await puller(f"{registry.host}/train:1")
    assert registry.sent() == {None}


async def test_many_layers_share_one_token(closed: Registry, puller: Puller) -> None:
    closed.add("2", *(json.dumps(number).encode() for number in range(20)))
    words = secret({closed.host: login(USER, PASSWORD)})
    await asyncio.gather(
        *(puller(f"{closed.host}/train:{tag}", keyring(words)) for tag in ("1", "2"))
    )
    assert closed.tokens_given == 2
