"""Files, Secrets and programs with credentials; hostile and broken ones."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from local.images.oci.registry.support import login, secret
from traincrew.local.images.oci.registry import PullSecret, helpers, user_keyring
from traincrew.local.images.oci.registry.challenges import Challenge, parse_challenges
from traincrew.local.images.oci.registry.credentials import Credential, Looked, matching_keys

HUB = "https://index.docker.io/v1/"


@pytest.mark.parametrize(
    ("keys", "image", "expected"),
    [
        # The cases of the kubelet's own tests (pkg/credentialprovider/keyring_test.go).
        (["registry.example"], "registry.example/x", ["registry.example"]),
        (["https://registry.example/v1/"], "registry.example/x", ["https://registry.example/v1/"]),
        (["http://registry.example/v2/"], "registry.example/x", ["http://registry.example/v2/"]),
        (["*.example"], "registry.example/x", ["*.example"]),
        (["*.example"], "a.registry.example/x", []),
        (["re*.example"], "registry.example/x", ["re*.example"]),
        (["example"], "registry.example/x", []),
        (["registry.example:5000"], "registry.example/x", []),
        (["registry.example"], "registry.example:5000/x", []),
        (["*.example:5000"], "registry.example:5000/x", ["*.example:5000"]),
        (["registry.example/team"], "registry.example/team/x", ["registry.example/team"]),
        (["registry.example/team"], "registry.example/other/x", []),
        (
            ["registry.example", "registry.example/team/x", "registry.example/team"],
            "registry.example/team/x",
            ["registry.example/team/x", "registry.example/team", "registry.example"],
        ),
        ([HUB], "docker.io/library/python", [HUB]),
        (["docker.io"], "docker.io/library/python", ["docker.io"]),
        (["index.docker.io"], "docker.io/me/x", ["index.docker.io"]),
        ([HUB], "registry.example/x", []),
        (["[", "http://[", "", "*", "://"], "registry.example/x", []),
    ],
)
def test_keys_fit_as_in_the_kubelet(keys: list[str], image: str, expected: list[str]) -> None:
    assert matching_keys(keys, image) == expected


async def found(
    files: dict[str, Any], directory: Path, image: str = "registry.example/team/x", **more: str
) -> tuple[list[Credential], list[Looked]]:
    """Look for credentials in a home directory with some files."""
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return await user_keyring([], {"HOME": str(directory), **more}).find(image)


async def test_dockers_file_is_found(tmp_path: Path) -> None:
    document = {"auths": {"registry.example": login("me", "a:b")}}
    credentials, looked = await found({".docker/config.json": document}, tmp_path)
    assert [(one.user, one.password) for one in credentials] == [("me", "a:b")]
    assert credentials[0].origin == f"{tmp_path}/.docker/config.json: auths[registry.example]"
    said = "has credentials for registry.example"
    assert looked == [Looked(f"{tmp_path}/.docker/config.json", said)]


async def test_files_are_tried_in_order(tmp_path: Path) -> None:
    files = {
        name: {"auths": {"registry.example": login(name, "word")}}
        for name in ("docker/config.json", "named.json", "run/containers/auth.json")
    }
    variables = {"DOCKER_CONFIG": f"{tmp_path}/docker", "XDG_RUNTIME_DIR": f"{tmp_path}/run"}
    credentials, _ = await found(files, tmp_path, **variables)
    assert [one.user for one in credentials] == ["run/containers/auth.json", "docker/config.json"]
    named = {**variables, "REGISTRY_AUTH_FILE": f"{tmp_path}/named.json"}
    credentials, looked = await found({}, tmp_path, **named)
    assert [one.user for one in credentials] == ["named.json", "docker/config.json"]
    assert looked[0].place == f"{tmp_path}/named.json (REGISTRY_AUTH_FILE)"


async def test_secrets_come_before_files_and_the_same_words_once(tmp_path: Path) -> None:
    (tmp_path / ".docker").mkdir()
    entry = {"registry.example": login("me", "word")}
    (tmp_path / ".docker/config.json").write_text(json.dumps({"auths": entry}))
    keyring = user_keyring([secret(entry, "ns/first")], {"HOME": str(tmp_path)})
    credentials, looked = await keyring.find("registry.example/x")
    assert [one.origin for one in credentials] == [
        "secret ns/first: data[.dockerconfigjson].auths[registry.example]"
    ]
    assert len(looked) == 2


async def test_legacy_secrets_are_read() -> None:
    data = {".dockercfg": json.dumps({HUB: {"username": "me", "password": "word"}}).encode()}
    legacy = PullSecret(name="ns/old", kind="kubernetes.io/dockercfg", data=data)
    credentials, _ = await user_keyring([legacy], {"HOME": "/nonexistent"}).find("docker.io/me/x")
    assert [(one.user, one.password) for one in credentials] == [("me", "word")]


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (PullSecret(name="ns/a", data=None), "does not exist"),
        (PullSecret(name="ns/a", kind="Opaque"), "type: must be kubernetes.io/dockerconfigjson"),
        (PullSecret(name="ns/a"), "data[.dockerconfigjson]: is missing"),
        (PullSecret(name="ns/a", data={".dockerconfigjson": b"[]"}), "must be a JSON object"),
        (PullSecret(name="ns/a", data={".dockerconfigjson": b"\xff"}), "is not JSON"),
    ],
)
async def test_secrets_that_cannot_be_used_are_named(broken: PullSecret, said: str) -> None:
    credentials, looked = await user_keyring([broken], {"HOME": "/nonexistent"}).find("r.io/x")
    assert credentials == []
    assert looked[0].place == "secret ns/a"
    assert looked[0].broken
    assert said in looked[0].result


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "must be a JSON object"),
        (" " * (1 << 20) + "{}", "has more than 1 MiB"),
        ({"auths": []}, "auths: must be an object"),
        ({"auths": {"registry.example": "secret-word"}}, "auths[registry.example]: must be an obj"),
        ({"auths": {"registry.example": {"auth": "%%secret-word"}}}, ".auth: is not base64"),
        ({"auths": {"registry.example": {"auth": "c2VjcmV0LXdvcmQ="}}}, ".auth: has no colon"),
        ({"auths": {"registry.example": {"auth": 7}}}, ".auth: must be a string"),
        (
            {"auths": {"registry.example": {"username": "a:secret-word", "password": "b"}}},
            ".username: has a colon",
        ),
        ({"auths": {str(number): {} for number in range(1001)}}, "more than 1000 entries"),
        ({"credHelpers": {"registry.example": 7}}, "credHelpers[registry.example]: must be"),
        ({"credHelpers": {"registry.example": "../x"}}, "is not the end of a program's name"),
        ({"credHelpers": {"registry.example": "none-such"}}, "is not in PATH"),
        ({"credsStore": ["x"]}, "credsStore: must be a string"),
    ],
)
async def test_broken_files_are_named(tmp_path: Path, content: Any, said: str) -> None:
    credentials, looked = await found({".docker/config.json": content}, tmp_path)
    assert credentials == []
    assert looked[0].broken
    assert said in looked[0].result
    assert "secret-word" not in looked[0].result


async def test_entries_of_others_do_not_matter(tmp_path: Path) -> None:
    document = {"auths": {"other.example": 7, "registry.example": login("me", "word")}}
    credentials, _ = await found({".docker/config.json": document}, tmp_path)
    assert len(credentials) == 1


async def test_nothing_of_a_credential_is_shown() -> None:
    credential = Credential(user="me", password="word", identity_token="token", origin="here")
    assert repr(credential) == str(credential) == "Credential(here)"
    assert repr(secret({"a": login("me", "word")})) == "PullSecret(default/login)"


@pytest.fixture
def helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that installs a program that keeps credentials."""

    def install(script: str, name: str = "vault") -> Path:
        path = tmp_path / "bin" / f"docker-credential-{name}"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return install


STORE = {".docker/config.json": {"auths": {"registry.example": {}}, "credsStore": "vault"}}


async def test_programs_are_asked(tmp_path: Path, helper: Any) -> None:
    helper('read server; echo "{\\"Username\\": \\"$server\\", \\"Secret\\": \\"word\\"}"')
    credentials, _ = await found(STORE, tmp_path)
    assert [(one.user, one.password) for one in credentials] == [("registry.example", "word")]
    assert credentials[0].origin == f"{tmp_path}/.docker/config.json: credsStore"
    credentials, _ = await found({}, tmp_path, "docker.io/library/python")
    assert credentials[0].user == HUB


async def test_the_program_of_a_registry_comes_first(tmp_path: Path, helper: Any) -> None:
    helper('cat >/dev/null; echo \'{"Username": "store", "Secret": "word"}\'')
    helper('cat >/dev/null; echo \'{"Username": "<token>", "Secret": "word"}\'', "own")
    document = {"credsStore": "vault", "credHelpers": {"registry.example": "own"}}
    credentials, _ = await found({".docker/config.json": document}, tmp_path)
    assert [(one.user, one.identity_token) for one in credentials] == [("", "word")]


async def test_a_program_may_have_nothing(tmp_path: Path, helper: Any) -> None:
    helper('echo "credentials not found in native keychain"; exit 1')
    credentials, looked = await found(STORE, tmp_path)
    assert credentials == []
    assert not looked[0].broken


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo secret-word; exit 3", "docker-credential-vault failed with exit code 3; try: echo"),
        ("echo secret-word", "did not print the JSON"),
        ("while :; do echo secret-word; done", "printed more than 64 KiB"),
        ("sleep 60 & sleep 60", "did not answer within 0.3 s"),
    ],
)
async def test_programs_that_fail_are_named(
    tmp_path: Path, helper: Any, monkeypatch: pytest.MonkeyPatch, script: str, said: str
) -> None:
    if "sleep" in script:
        monkeypatch.setattr(helpers, "TIMEOUT", 0.3)
    helper(script)
    credentials, looked = await found(STORE, tmp_path)
    assert credentials == []
    assert looked[0].broken
    assert said in looked[0].result
    assert "credsStore" in looked[0].result
    assert "secret-word" not in looked[0].result


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (['Basic realm="x"'], [Challenge("basic", {"realm": "x"})]),
        (
            ['Bearer realm="https://a/t?x=1,2",service=b, scope="repository:c:pull,push"'],
            [
                Challenge(
                    "bearer",
                    {
                        "realm": "https://a/t?x=1,2",
                        "service": "b",
                        "scope": "repository:c:pull,push",
                    },
                )
            ],
        ),
        (
            ['Negotiate, Basic realm="a \\"b\\"", Bearer realm=c'],
            [
                Challenge("negotiate"),
                Challenge("basic", {"realm": 'a "b"'}),
                Challenge("bearer", {"realm": "c"}),
            ],
        ),
        (["", "=", '"', "Basic realm="], [Challenge("basic")]),
        (["Bearer " + "a" * 100_000], [Challenge("bearer")]),
    ],
)
def test_challenges_are_parsed(headers: list[str], expected: list[Challenge]) -> None:
    found = parse_challenges(headers)
    assert found[: len(expected)] == expected
