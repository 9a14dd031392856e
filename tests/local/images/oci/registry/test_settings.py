"""`registries.yaml`, and connections that it changes."""

from pathlib import Path

import pytest
from aiohttp import web

from local.images.oci.registry.support import (
    Puller,
    Registry,
    keyring,
    login,
    secret,
    serving,
    tunnelling,
)
from traincrew.local.authority import Certificate, make_certificate
from traincrew.local.images.errors import ImagePullError
from traincrew.local.images.oci.registry import RegistrySettings, load_settings
from traincrew.local.images.oci.registry.failures import SettingsError
from traincrew.local.images.oci.registry.settings import HostSettings, Mirror


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "registries.yaml"


def test_the_file_is_read(file: Path) -> None:
    (file.parent / "ca.pem").write_text("")
    file.write_text(
        "registries:\n"
        "  docker.io:\n"
        "    mirrors: [mirror.example:5000/hub, other.example]\n"
        "  mirror.example:5000: {plainHTTP: true}\n"
        "  registry.example: {caFile: ca.pem}\n"
        "  lab.example: {skipTLSVerify: true}\n"
        "  empty.example:\n"
    )
    settings = load_settings(file)
    mirrors = (Mirror("mirror.example:5000", "hub"), Mirror("other.example"))
    assert settings.of("docker.io") == HostSettings(mirrors=mirrors)
    assert settings.of("registry-1.docker.io") == settings.of("docker.io")
    assert settings.of("mirror.example:5000").plain_http
    assert settings.of("registry.example").ca_file == file.parent / "ca.pem"
    assert settings.of("lab.example").skip_verify
    assert settings.of("unknown.example") == settings.of("empty.example") == HostSettings()
    assert settings.server_of("docker.io") == "registry-1.docker.io"


def test_a_missing_file_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert load_settings().hosts == {}
    with pytest.raises(SettingsError, match="does not exist"):
        load_settings(file)
    file.write_text("")
    assert load_settings(file).hosts == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "registries.yaml:2: not valid YAML"),
        ("x: 1", 'the only top-level field is "registries"'),
        ("[]", 'the only top-level field is "registries"'),
        ("registries: []", "registries: must be a mapping"),
        ("registries: {a.b: 7}", r"registries\[a.b\]: must be a mapping with mirrors"),
        (
            "registries: {a.b: {mirrorz: []}}",
            r'mirrorz: is not .* did you mean "mirrors"',
        ),
        ("registries: {a.b: {x: []}}", r"x: is not a setting of a registry; known: mirrors"),
        ("registries: {'https://a.b': {}}", "write the host alone: a.b"),
        ("registries: {'a b': {}}", "is not a registry: write host, or host:port"),
        ("registries: {index.docker.io: {}}", "write docker.io"),
        ("registries: {a.b: {plainHTTP: yes please}}", "plainHTTP: must be true or false"),
        ("registries: {a.b: {plainHTTP: true, skipTLSVerify: true}}", "excludes skipTLSVerify"),
        ("registries: {a.b: {caFile: /none}}", "caFile: /none: No such file"),
        ("registries: {a.b: {caFile: 7}}", "caFile: must be the path"),
        ("registries: {a.b: {caFile: ., skipTLSVerify: true}}", "excludes caFile"),
        ("registries: {a.b: {mirrors: x}}", "mirrors: must be a list of at most 20"),
        ("registries: {a.b: {mirrors: [7]}}", r"mirrors\[0\]: must be a string"),
        (
            "registries: {a.b: {mirrors: ['https://c/d/']}}",
            r"is an address: write c/d",
        ),
        ("registries: {a.b: {mirrors: ['http://c']}}", r"plainHTTP: true under registries\[c\]"),
        ("registries: {a.b: {mirrors: ['c/../d']}}", r"c/../d is not a mirror"),
        ("registries: {a.b: {}, a.b: {}}", "not valid YAML"),
    ],
)
def test_mistakes_name_the_field(file: Path, text: str, said: str) -> None:
    file.write_text(text)
    with pytest.raises(SettingsError, match=said) as failure:
        load_settings(file)
    assert str(file) in str(failure.value)


@pytest.fixture
def certificate(tmp_path: Path) -> Certificate:
    directory = tmp_path / "certificates"
    directory.mkdir()
    return make_certificate(directory)


async def test_a_certificate_of_its_own_is_trusted_if_the_file_says_so(
    puller: Puller, certificate: Certificate, tmp_path: Path
) -> None:
    (tmp_path / "ca.pem").write_text(certificate.authority)
    registry = Registry()
    registry.add("1", b"one")
    async with serving(registry, certificate.context()) as host:
        with pytest.raises(ImagePullError, match="certificate verify failed") as failure:
            await puller(f"{host}/train:1")
        assert f"registries[{host}].caFile in /etc/registries.yaml" in failure.value.message
        assert failure.value.permanent
        puller.settings = RegistrySettings({host: HostSettings(ca_file=tmp_path / "ca.pem")})
        await puller(f"{host}/train:1")
        puller.store.images.clear()
        puller.settings = RegistrySettings({host: HostSettings(skip_verify=True)})
        await puller(f"{host}/train:1")
        (tmp_path / "ca.pem").write_text("nothing")
        puller.settings = RegistrySettings({host: HostSettings(ca_file=tmp_path / "ca.pem")})
        with pytest.raises(ImagePullError, match=r"caFile: .*ca.pem cannot be used"):
            await puller(f"{host}/train:2")


async def test_plain_http_is_found_on_loopback_and_allowed_elsewhere(puller: Puller) -> None:
    registry = Registry()
    registry.add("1", b"one")
    async with serving(registry) as host:
        await puller(f"{host}/train:1")
        puller.store.images.clear()
        puller.settings = RegistrySettings({host: HostSettings(plain_http=False)})
        with pytest.raises(ImagePullError, match="needs plainHTTP: true in"):
            await puller(f"{host}/train:1")


async def test_encryption_is_not_left_by_a_redirect(
    puller: Puller, certificate: Certificate
) -> None:
    plain, registry = Registry(), Registry()
    async with serving(plain) as elsewhere, serving(registry, certificate.context()) as host:

        async def moving(request: web.Request) -> web.StreamResponse:
            return web.Response(status=307, headers={"Location": f"http://{elsewhere}/x"})

        registry.hook = moving
        puller.settings = RegistrySettings({host: HostSettings(skip_verify=True)})
        with pytest.raises(ImagePullError, match=f"{elsewhere}, which is not encrypted"):
            await puller(f"{host}/train:1")
        assert plain.log == []


async def test_passwords_are_not_sent_to_a_token_server_without_encryption(
    puller: Puller, certificate: Certificate
) -> None:
    plain, registry = Registry(), Registry()
    registry.scheme = "bearer"
    async with serving(plain) as elsewhere, serving(registry, certificate.context()) as host:
        registry.realm = f"http://{elsewhere}/token"
        puller.settings = RegistrySettings({host: HostSettings(skip_verify=True)})
        words = keyring(secret({host: login("me", "word")}))
        with pytest.raises(ImagePullError, match="which is not encrypted"):
            await puller(f"{host}/train:1", words)
        assert plain.log == []


async def test_a_proxy_leads_to_tls(
    puller: Puller, certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry, heads = Registry(), list[str]()
    registry.scheme, registry.users = "basic", {"me": "word"}
    registry.add("1", b"one")
    async with serving(registry, certificate.context()) as host, tunnelling(heads) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://proxy-user:proxy-word@{proxy}")
        name = f"registry.example:{host.rpartition(':')[2]}"
        puller.settings = RegistrySettings({name: HostSettings(skip_verify=True)})
        await puller(f"{name}/train:1", keyring(secret({name: login("me", "word")})))
    assert all(head.startswith(f"CONNECT {name} ") for head in heads)
    words = login("proxy-user", "proxy-word")["auth"]
    assert all(f"Proxy-Authorization: Basic {words}" in head for head in heads)
    assert not any("\nAuthorization" in head for head in heads)
    assert registry.sent() == {None, f"Basic {login('me', 'word')['auth']}"}
