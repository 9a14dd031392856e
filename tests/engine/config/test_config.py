"""Kubeconfig files and in-cluster settings: what is found, chosen, merged and refused."""

import json
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from traincrew.engine.config import (
    ClientConfig,
    FileToken,
    from_kubeconfig,
    in_cluster_config,
    load_config,
)
from traincrew.engine.errors import ConfigError
from traincrew.engine.testing import ManualClock

Document = dict[str, Any]


def document(server: str = "https://example:6443", **user: Any) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "contexts": [
            {"name": "main", "context": {"cluster": "c", "user": "u", "namespace": "team"}},
            {"name": "bare", "context": {"cluster": "c"}},
        ],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
    }


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide this machine's clusters and proxies."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


async def test_context_namespace_and_token() -> None:
    config = from_kubeconfig(document("http://127.0.0.1:7000/SECRET/", token="t"))

    assert config.server == "http://127.0.0.1:7000/SECRET"
    assert config.namespace == "team"
    assert config.context == "main"
    assert await config.authorization() == "Bearer t"


async def test_another_context_may_have_no_user_and_no_namespace() -> None:
    config = from_kubeconfig(document(token="t"), "bare")

    assert config.namespace == "default"
    assert await config.authorization() is None
    assert not await config.refresh_credentials(None)


async def test_user_name_and_password() -> None:
    config = from_kubeconfig(document(username="me", password="pass"))

    assert await config.authorization() == "Basic " + b64encode(b"me:pass").decode()


async def test_a_token_file_is_relative_to_the_kubeconfig_and_wins_over_a_token(
    tmp_path: Path,
) -> None:
    write(tmp_path / "secrets" / "token", "from-file\n")
    path = write(tmp_path / "config", document(tokenFile="secrets/token", token="inline"))

    assert await load_config(str(path)).authorization() == "Bearer from-file"


def test_the_order_of_configuration_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    explicit = write(tmp_path / "explicit", document("https://explicit"))
    named = write(tmp_path / "named", document("https://named"))
    account = tmp_path / "account"
    write(account / "token", "t")
    monkeypatch.setattr("traincrew.engine.config.client_config.SERVICE_ACCOUNT", account)

    with pytest.raises(ConfigError, match="no cluster configured: KUBECONFIG is not set"):
        load_config()
    write(tmp_path / "home" / ".kube" / "config", document("https://home"))
    assert load_config().server == "https://home"
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert load_config().server == "https://10.0.0.1:443"
    monkeypatch.setenv("KUBECONFIG", str(named))
    assert load_config().server == "https://named"
    assert load_config(str(explicit)).server == "https://explicit"


def test_several_files_are_merged_and_the_first_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = document("https://first")
    first["users"] = []
    del first["current-context"]
    second = document("https://second", token="second")
    second["clusters"].append({"name": "d", "cluster": {"server": "https://d"}})
    second["contexts"].append({"name": "d", "context": {"cluster": "d", "user": "u"}})
    third = document("https://third", token="third") | {"current-context": "d"}
    paths = [
        write(tmp_path / str(number), content)
        for number, content in enumerate([first, second, third])
    ]
    names = [*map(str, paths), str(tmp_path / "missing"), ""]
    monkeypatch.setenv("KUBECONFIG", ":".join(names))

    assert load_config().server == "https://first"
    assert load_config().context == "main"
    assert load_config(context="d").server == "https://d"
    assert load_config(context="d").credentials is not None


def test_each_of_several_files_has_its_own_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = document()
    first["users"] = []
    write(tmp_path / "b" / "token", "t")
    paths = [
        write(tmp_path / "a" / "config", first),
        write(tmp_path / "b" / "config", document(tokenFile="token")),
    ]
    monkeypatch.setenv("KUBECONFIG", ":".join(map(str, paths)))

    assert load_config().credentials is not None


async def test_in_a_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    with pytest.raises(ConfigError, match="automountServiceAccountToken"):
        in_cluster_config(tmp_path)
    write(tmp_path / "token", "one")
    write(tmp_path / "namespace", "training\n")
    config = in_cluster_config(tmp_path)
    assert config.server == "https://[fd00::1]:6443"
    assert config.namespace == "training"
    assert await config.authorization() == "Bearer one"

    write(tmp_path / "token", "two")
    assert await config.authorization() == "Bearer one", "read once a minute"
    assert await config.refresh_credentials("Bearer one"), "but at once when it was refused"
    assert await config.authorization() == "Bearer two"
    assert not await config.refresh_credentials("Bearer two")

    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    with pytest.raises(ConfigError, match="not in a pod"):
        in_cluster_config(tmp_path)


def with_user(**user: Any) -> Document:
    return document(**user)


def with_cluster(**cluster: Any) -> Document:
    changed = document()
    changed["clusters"][0]["cluster"].update(cluster)
    return changed


EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "x", "interactiveMode": "Never"}

BROKEN: list[tuple[Document, str]] = [
    ({}, r"current-context is not set; choose one \(there: none\)"),
    (document() | {"current-context": ""}, r"choose one \(there: main, bare\)"),
    (document() | {"current-context": "x"}, r"contexts has no entry named 'x' \(there: main, bare"),
    (document() | {"contexts": "x"}, "contexts must be a list"),
    (document() | {"contexts": ["x"]}, r"contexts\[0\] must be a mapping, not str"),
    (document() | {"users": [{"user": {}}]}, r"users\[0\]\.name is required"),
    (document() | {"users": []}, r"users has no entry named 'u' \(there: none\)"),
    (document() | {"clusters": []}, "clusters has no entry named 'c'"),
    (document("example:6443"), "server: 'example:6443' must look like https://host:port"),
    (document("https://x:port"), "server: Port could not be cast"),
    (document("https://x?a=b"), "must not have a query"),
    (with_cluster(server=None), r"clusters\[c\]\.cluster\.server is required"),
    (with_cluster(**{"certificate-authority": "/no/such"}), "certificate-authority: there is no"),
    (with_cluster(**{"certificate-authority-data": "%"}), "certificate-authority-data is not base"),
    (with_cluster(**{"insecure-skip-tls-verify": "yes"}), "must be true or false"),
    (
        with_cluster(**{"insecure-skip-tls-verify": True, "certificate-authority-data": "eA=="}),
        "exclude each other",
    ),
    (with_cluster(**{"proxy-url": "socks5://x:1"}), "proxy-url: 'socks5://x:1' must look like"),
    (with_user(token=12345), r"users\[u\]\.user\.token must be a string; put it in quotes"),
    (with_user(token="t", username="n"), "both a token and a username"),
    (with_user(tokenFile="/no/such"), "tokenFile: there is no file /no/such"),
    (with_user(**{"client-certificate-data": "eA=="}), "must be given together"),
    (with_user(**{"auth-provider": {"name": "oidc"}}), "auth-provider: Kubernetes removed these"),
    (with_user(token="t", **{"as": "root"}), "impersonation is not supported"),
    (with_user(exec=EXEC | {"apiVersion": "client.authentication.k8s.io/v1alpha1"}), "v1 or clien"),
    (with_user(exec=EXEC | {"command": ""}), r"user\.exec\.command is required"),
    (with_user(exec=EXEC | {"interactiveMode": None}), "interactiveMode is required"),
    (with_user(exec=EXEC | {"interactiveMode": "Maybe"}), "'Maybe': use Never, IfAvailable"),
    (with_user(exec=EXEC | {"args": [1]}), r"exec\.args\[0\] must be a string"),
    (with_user(exec=EXEC | {"env": [{}]}), r"exec\.env\[0\]\.name is required"),
    (with_user(exec="x"), r"users\[0\]\.user\.exec must be a mapping"),
]


@pytest.mark.parametrize(("broken", "message"), BROKEN)
def test_errors_name_the_field(broken: Document, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        from_kubeconfig(broken)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: [", r"config:[12]: not valid YAML: "),
        ("a: " + "1" * 5_000, r"config:1: not valid YAML: JSON has no such number: 1111"),
        ("a: !!int ''", "config:1: not valid YAML: '' is no int"),
        ("\na: !!bool x", "config:2: not valid YAML: 'x' is no bool"),
        ("[" * 100_000, "config:1: not valid YAML: nested more than 250 levels deep"),
        ("a: &m [*m]", "config:1: not valid YAML: an anchor's value contains itself"),
        ("a: \xff".encode("latin-1"), "config: not valid YAML: "),
        ("- a", "must be a mapping, not list"),
        ("", "current-context is not set"),
    ],
)
def test_files_that_are_not_a_kubeconfig(
    tmp_path: Path, content: str | bytes, message: str
) -> None:
    path = tmp_path / "config"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigError, match=message) as caught:
        load_config(str(path))
    assert str(path) in str(caught.value)


def test_missing_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"nothing: No such file"):
        load_config(str(tmp_path / "nothing"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "a"))
    with pytest.raises(ConfigError, match=r"KUBECONFIG=.*/a: no such file"):
        load_config()


def test_json_is_yaml(tmp_path: Path) -> None:
    path = write(tmp_path / "config", json.dumps(document(token="t")))

    assert load_config(str(path)).context == "main"


Setting = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize(
    ("server", "variables", "expected"),
    [
        ("https://cluster:6443", {}, None),
        ("https://cluster:6443", {"HTTPS_PROXY": "http://p:3128"}, "http://p:3128"),
        ("https://cluster:6443", {"HTTPS_PROXY": "p:3128"}, "http://p:3128"),
        ("https://cluster:6443", {"HTTP_PROXY": "http://p:3128"}, None),
        ("http://cluster:6443", {"http_proxy": "http://p:3128"}, "http://p:3128"),
        ("https://a.b.c", {"HTTPS_PROXY": "http://p", "NO_PROXY": "x,.b.c"}, None),
        ("https://10.1.2.3", {"HTTPS_PROXY": "http://p", "NO_PROXY": "10.0.0.0/8"}, None),
        ("https://11.1.2.3", {"HTTPS_PROXY": "http://p", "NO_PROXY": "10.0.0.0/8,/"}, "http://p"),
        ("https://127.0.0.1:1", {"HTTPS_PROXY": "http://p"}, None),
        ("https://[::1]:1", {"HTTPS_PROXY": "http://p"}, None),
        ("http://localhost:1", {"HTTP_PROXY": "http://p"}, None),
    ],
)
def test_proxies_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, server: str, variables: dict[str, str], expected: str | None
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert ClientConfig(server).proxy_for_server() == expected


def test_a_proxy_of_the_kubeconfig_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://environment")
    config = from_kubeconfig(with_cluster(**{"proxy-url": "http://proxy:1"}))

    assert config.proxy_for_server() == "http://proxy:1"


async def test_a_token_file_may_be_missing_while_it_is_replaced(tmp_path: Path) -> None:
    clock = ManualClock()
    token = FileToken(write(tmp_path / "token", "one"), clock=clock)
    assert await token.authorization() == "Bearer one"
    (tmp_path / "token").unlink()
    clock.advance(61)
    assert await token.authorization() == "Bearer one"
    write(tmp_path / "token", "")
    clock.advance(61)
    assert await token.authorization() == "Bearer one"

    with pytest.raises(ConfigError, match="token is empty"):
        await FileToken(tmp_path / "token").authorization()
    with pytest.raises(ConfigError, match=r"tokenFile .*nothing: No such file"):
        await FileToken(tmp_path / "nothing").authorization()
