"""The programs of a directory for envtest, with the flags that others give them."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from traincrew.cli.testserver import etcd, kubeapiserver
from traincrew.cli.testserver.assets import write_assets
from traincrew.cli.testserver.flags import FlagError, Flags, parse
from traincrew.cli.testserver.programs import Program, main
from traincrew.engine.errors import ApiError
from traincrew.engine.resources import NAMESPACES, SERVICES
from traincrew.local.authority import ClientAuthority, make_certificate
from traincrew.local.standalone import StandaloneServer

REQUIRED = {
    "etcd-servers": "http://127.0.0.1:2379",
    "service-account-issuer": "https://localhost",
    "service-account-signing-key-file": __file__,
}


def flags_of(program: Program, *words: str) -> Flags:
    return parse(words, program.flags, program.switches)


def given(**more: str) -> Flags:
    values = REQUIRED | {name.replace("_", "-"): value for name, value in more.items()}
    return flags_of(
        kubeapiserver.KUBE_APISERVER, *(f"--{name}={value}" for name, value in values.items())
    )


# -- flags ----------------------------------------------------------------------------------------


def test_what_is_required_is_named_as_upstream_names_it() -> None:
    with pytest.raises(FlagError) as error:
        kubeapiserver.read(Flags({}, []))
    assert str(error.value).startswith(
        "[--etcd-servers must be specified, service-account-issuer is a required flag, "
    )


@pytest.mark.parametrize(
    ("flag", "value", "said"),
    [
        ("etcd_servers", "https://127.0.0.1:2379", "is not of the form http://127.0.0.1:PORT"),
        ("etcd_servers", "http://etcd.example.com:2379", "is not of the form"),
        ("etcd_servers", "http://[::1", "is not of the form"),
        ("secure_port", "0", "--secure-port: '0' must be between 1 and 65535, inclusive"),
        ("secure_port", "x", "--secure-port: 'x' must be between"),
        ("service_cluster_ip_range", "10.0.0.0/99", "--service-cluster-ip-range: "),
        ("service_cluster_ip_range", "10.0.0.0/32", "has less than four addresses"),
        ("client_ca_file", "/none/ca.crt", "--client-ca-file: /none/ca.crt: no such file"),
        ("service_account_key_file", "/none", "--service-account-key-file: /none: no such file"),
        ("tls_cert_file", __file__, "--tls-cert-file and --tls-private-key-file must be"),
        ("anonymous_auth", "maybe", "--anonymous-auth: 'maybe' is neither true nor false"),
    ],
)
def test_flags_that_cannot_be_used(flag: str, value: str, said: str) -> None:
    with pytest.raises(FlagError) as error:
        kubeapiserver.read(given(**{flag: value}))
    assert said in str(error.value)


def test_what_has_no_effect_is_said() -> None:
    settings = kubeapiserver.read(
        given(
            authorization_mode="AlwaysAllow,RBAC",
            bind_address="192.0.2.1",
            enable_admission_plugins="NamespaceLifecycle,AlwaysPullImages",
            disable_admission_plugins="ServiceAccount,LimitRanger",
        )
    )
    assert settings.notes == [
        "--bind-address=192.0.2.1: only 127.0.0.1 is served",
        "--authorization-mode: AlwaysAllow has no effect; Roles decide",
        "--enable-admission-plugins: AlwaysPullImages has no effect",
        "--disable-admission-plugins: LimitRanger stays on",
    ]


def test_what_envtest_gives_is_understood(tmp_path: Path) -> None:
    make_certificate(tmp_path)
    settings = kubeapiserver.read(
        given(
            allow_privileged="true",
            authorization_mode="RBAC",
            bind_address="127.0.0.1",
            cert_dir=str(tmp_path),
            client_ca_file=str(tmp_path / "ca.crt"),
            disable_admission_plugins="ServiceAccount",
            secure_port="16443",
            service_cluster_ip_range="10.0.0.0/24",
        )
    )
    assert settings.notes == []
    assert not settings.service_accounts
    assert (settings.etcd, settings.port) == (2379, 16443)
    assert settings.certificate is not None
    assert settings.certificate.path == tmp_path / "apiserver.crt"
    assert settings.client_authority == tmp_path / "ca.crt"
    assert str(settings.service_network) == "10.0.0.0/24"


# -- the programs ---------------------------------------------------------------------------------


def test_help_lists_the_flags_that_envtest_looks_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["etcd", "--help"])
    assert main(etcd.ETCD) == 0
    assert "\n      --unsafe-no-fsync " in capsys.readouterr().out
    assert main(kubeapiserver.KUBE_APISERVER) == 0
    assert "--insecure-port" not in capsys.readouterr().out


def test_mistakes_end_with_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["kube-apiserver", "--insecure-port=0\x1b[2J", "--profiling"])
    assert main(kubeapiserver.KUBE_APISERVER) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert first == ("kube-apiserver: --insecure-port=0?[2J is not known here, and has no effect")
    assert second.startswith("kube-apiserver: error: [--etcd-servers must be specified, ")


@pytest.fixture
def ports() -> list[int]:
    from traincrew.engine.serving.accepting import open_listener

    listeners = [open_listener("127.0.0.1", 0) for _ in range(2)]
    found = [each.getsockname()[1] for each in listeners]
    for each in listeners:
        each.close()
    return found


@asynccontextmanager
async def running(
    monkeypatch: pytest.MonkeyPatch, program: Program, *words: str
) -> AsyncIterator[asyncio.Task[None]]:
    """Run a program in this process until the end of the block."""
    module = sys.modules[program.run.__module__]
    ready, end = asyncio.Event(), asyncio.Event()

    async def until_asked() -> None:
        ready.set()
        await end.wait()

    monkeypatch.setattr(module, "until_asked_to_end", until_asked)
    task = asyncio.ensure_future(program.run(flags_of(program, *words)))
    waiting = asyncio.ensure_future(ready.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if task.done():
        await task
    try:
        yield task
    finally:
        end.set()
        await task


async def test_objects_last_as_long_as_the_data_of_etcd(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ports: list[int]
) -> None:
    """As fabric8's kube-api-test starts them. The second server finds what the first has stored."""
    etcd_port, port = ports
    certificates = tmp_path / "certificates"
    certificates.mkdir()
    make_certificate(certificates)
    clients = ClientAuthority(certificates)
    data = ("-data-dir", str(tmp_path / "data"), "-wal-dir", str(tmp_path / "wal"))
    urls = ("--listen-client-urls", f"http://0.0.0.0:{etcd_port}")
    apiserver = [
        *("--cert-dir", str(certificates), "--secure-port", str(port)),
        *("--etcd-servers", f"http://0.0.0.0:{etcd_port}", "--client-ca-file", str(clients.path)),
        *("--service-account-issuer", "https://localhost", "--allow-privileged"),
        *("--service-account-signing-key-file", str(certificates / "apiserver.key")),
        *("--service-cluster-ip-range", "10.0.0.0/24"),
    ]
    servers: list[StandaloneServer] = []
    original = StandaloneServer.start

    async def noted(self: StandaloneServer) -> None:
        servers.append(self)
        await original(self)

    monkeypatch.setattr(StandaloneServer, "start", noted)
    async with running(monkeypatch, etcd.ETCD, *data, *urls):
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{etcd_port}/health") as response,
        ):
            assert await response.json() == {"health": "true", "reason": ""}
        for turn in range(2):
            async with (
                running(monkeypatch, kubeapiserver.KUBE_APISERVER, *apiserver),
                servers[turn].make_client() as client,
            ):
                service = await client.get(SERVICES, "kubernetes", "default")
                assert service["spec"]["clusterIP"] == "10.0.0.1"
                if turn == 0:
                    lab = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lab"}}
                    await client.create(NAMESPACES, lab)
                assert await client.get(NAMESPACES, "lab")
                with pytest.raises(ApiError, match="not found"):
                    await client.get(NAMESPACES, "other")


async def test_another_etcd_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ports: list[int]
) -> None:
    monkeypatch.setattr(etcd, "STATE_PATH", "/elsewhere")  # such a path it answers with 404
    words = ("--data-dir", str(tmp_path), f"--listen-client-urls=http://127.0.0.1:{ports[0]}")
    async with running(monkeypatch, etcd.ETCD, *words):
        with pytest.raises(FlagError, match="is not the etcd of this directory"):
            await kubeapiserver.KUBE_APISERVER.run(
                given(etcd_servers=f"http://127.0.0.1:{ports[0]}")
            )


async def test_a_directory_that_others_can_write_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    answers: list[object] = [{"directory": str(shared / "state")}, {"directory": "state"}, ["x"]]
    monkeypatch.setattr(kubeapiserver, "_ask", lambda _: answers.pop(0))
    with pytest.raises(FlagError, match="can be written by other users"):
        await kubeapiserver.KUBE_APISERVER.run(given())
    for _ in range(2):
        with pytest.raises(FlagError, match="is not the etcd of this directory"):
            await kubeapiserver.KUBE_APISERVER.run(given())
    assert not (shared / "state").exists()


async def test_an_etcd_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, ports: list[int]
) -> None:
    monkeypatch.setattr(kubeapiserver, "_ETCD_SECONDS", 0.0)
    with pytest.raises(FlagError, match=r"http://127\.0\.0\.1:\d+ does not answer: "):
        await kubeapiserver.KUBE_APISERVER.run(given(etcd_servers=f"http://127.0.0.1:{ports[0]}"))


# -- the directory --------------------------------------------------------------------------------


def run(program: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *words], capture_output=True, text=True, check=False)


def test_the_directory_has_three_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    beside = tmp_path / "bin"
    beside.mkdir()
    (beside / "kubectl").write_text("#!/bin/sh\necho real $1\n")
    (beside / "kubectl").chmod(0o755)
    # The directory itself comes first in the path: its kubectl must not start itself.
    monkeypatch.setenv("PATH", f"{tmp_path / 'assets'}{os.pathsep}{beside}")
    monkeypatch.setattr(
        "traincrew.cli.testserver.assets.sys", type("sys", (), {"executable": "/none/python"})
    )
    for _ in range(2):
        assert write_assets(tmp_path / "assets") == str(beside / "kubectl")
    names = sorted(each.name for each in (tmp_path / "assets").iterdir())
    assert names == ["etcd", "kube-apiserver", "kubectl"]
    assert run(tmp_path / "assets" / "kubectl", "get").stdout == "real get\n"
    script = (tmp_path / "assets" / "etcd").read_text()
    assert script.endswith('exec /none/python -P -m traincrew.cli.testserver.etcd "$@"\n')


def test_without_kubectl_its_script_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(
        "traincrew.cli.testserver.assets.sys", type("sys", (), {"executable": "/none/python"})
    )
    assert write_assets(tmp_path) is None
    said = run(tmp_path / "kubectl", "version")
    assert said.returncode == 1
    assert said.stderr.startswith("kubectl: there is none on this machine. Install one, or")
