"""Pods have the credentials of their ServiceAccount, and none of the cluster's."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from local.node.support import CAPABILITIES
from traincrew.engine.resources import PODS, SERVICE_ACCOUNTS
from traincrew.local import credentials
from traincrew.local.cluster import ClusterOptions, LocalCluster
from traincrew.local.node import PodOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

DEADLINE = 60.0
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"

# What a pod sees in its `/tmp` if this checkout is there: the interpreter that runs its programs.
CHECKOUT = Path(__file__).resolve().parents[3]

# Prints everything that a program can read where credentials are or were.
# ARGV: process of the cluster, a directory with neither, directories.
SEARCH = """
import os, sys
from pathlib import Path
print(dict(os.environ))
def below(place):
    for directory, inner, names in os.walk(place):
        if directory == sys.argv[2]:
            inner.clear()
            continue
        yield from (Path(directory, name) for name in names)
places = [Path(each) for each in sys.argv[3:]] + [Path("/run"), Path("/tmp")]
files = [file for place in places for file in below(place)]
files += [Path("/proc/self/mountinfo")]
for process in Path("/proc").glob("[0-9]*"):
    files += [process / "environ", process / "cmdline"]
    files += (process / "root" / sys.argv[3].lstrip("/")).rglob("*")
for file in files:
    try:
        print("READ", file, file.read_bytes()[:100_000])
    except OSError:
        pass
daemon = Path("/proc") / sys.argv[1] / "cmdline"
print("DAEMON", daemon.read_bytes() if daemon.exists() else None)
"""
# What a program with all capabilities would do against what hides the directories.
UNCOVER = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
print("UMOUNT", libc.umount2(sys.argv[1].encode(), 2))
print("UNSHARE", libc.unshare(0x00020000))
print("UMOUNT", libc.umount2(sys.argv[1].encode(), 2))
print("MOUNT", libc.mount(b"proc", b"/tmp", b"proc", 0, None))
print("FOUND", os.listdir(sys.argv[1]))
"""

needs_namespaces = pytest.mark.skipif(
    not CAPABILITIES.namespaces, reason=f"no namespaces: {CAPABILITIES.reason}"
)


@pytest.fixture
def state() -> Any:
    """A state directory that pods would see; `/tmp` is their own."""
    path = Path(tempfile.mkdtemp(dir="/var/tmp"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@asynccontextmanager
async def running(state: Path, tmp_path: Path, **options: Any) -> AsyncIterator[LocalCluster]:
    catalog = tmp_path / "images.yaml"
    catalog.write_text('{"environments": [{"name": "any", "images": ["any"]}]}')
    chosen = ClusterOptions(
        directory=state,
        image_catalogs=(catalog,),
        image_cache=tmp_path / "cache",
        **options,
    )
    async with LocalCluster(chosen) as cluster:
        yield cluster


async def output(
    cluster: LocalCluster, program: str, *arguments: str, name: str = "p", **spec: Any
) -> str:
    """Run a Python program in a pod, and return what it printed."""
    context = spec.pop("security", {})
    container = {
        "name": "main",
        "image": "any:1",
        "command": [sys.executable, "-c", program, *arguments],
        "securityContext": context,
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"restartPolicy": "Never", "containers": [container], **spec},
    }
    await cluster.client.create(PODS, pod, "default")
    phase = ""
    async with asyncio.timeout(DEADLINE):
        while phase not in {"Succeeded", "Failed"}:
            await asyncio.sleep(0.05)
            found = await cluster.client.get(PODS, name, "default")
            phase = found["status"].get("phase", "")
    chunks = cluster.client.logs(name, "default")
    return b"".join([chunk async for chunk in chunks]).decode()


@needs_namespaces
async def test_a_pod_finds_no_credential_but_its_accounts(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Path(tempfile.mkdtemp(dir=state.parent))
    merged = Path(tempfile.mkdtemp(dir=state.parent)) / "config"
    monkeypatch.setenv("HOME", str(home))
    try:
        async with running(state, tmp_path, secrets=lambda: [merged]) as cluster:
            (home / ".kube").mkdir()
            for file in (home / ".kube" / "config", merged):
                shutil.copy(cluster.kubeconfig_path, file)
            (merged.parent / "other").touch()
            places = (str(state), str(home), str(merged.parent))
            text = await output(cluster, SEARCH, str(os.getpid()), str(CHECKOUT), *places)
            assert "serviceaccount/token" in text  # its own
            assert cluster.server.token not in text
            assert "identity.json" not in text
            assert "KUBECONFIG" not in text
            assert text.endswith("DAEMON None\n")  # not this process
            # That this finds files at all:
            assert f"READ {merged.parent}/other" in text
            uncovered = await output(cluster, UNCOVER, str(state), name="q")
            assert uncovered.splitlines()[-1] == "FOUND []", uncovered
            root = {"runAsUser": 0}
            uncovered = await output(cluster, UNCOVER, str(state), name="r", security=root)
            assert uncovered.splitlines()[-1] == "FOUND []", uncovered
    finally:
        for directory in (home, merged.parent):
            shutil.rmtree(directory, ignore_errors=True)


LOOK = """
import os, sys
for path in sys.argv[1:]:
    print(os.listdir(path) if os.path.isdir(path) else "none")
"""


@needs_namespaces
async def test_a_pod_finds_nothing_of_other_clusters_wherever_they_are(
    state: Path, tmp_path: Path
) -> None:
    stopped, own, other = (state / name for name in ("stopped", "own", "data/traincrew/other"))
    async with running(stopped, tmp_path):
        pass
    async with running(other, tmp_path), running(own, tmp_path) as cluster:
        assert (stopped / "identity.json").exists()
        text = await output(cluster, LOOK, str(stopped), str(other), str(state / "data"))
        assert text == "[]\n[]\n['traincrew']\n"


@needs_namespaces
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can read files of other users")
async def test_a_pod_of_root_finds_nothing_of_other_users_clusters(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = state / "somebody"
    for place in (".kube", ".local/share/traincrew/clusters/default"):
        (home / place).mkdir(parents=True)
    (home / ".kube" / "config").write_text("token")
    (home / "file").touch()
    for path in (home, *home.rglob("*")):
        os.chown(path, 4711, 4711)
    monkeypatch.setattr(credentials, "_other_homes", lambda: [credentials.Owned(home, 4711)])
    async with running(state / "own", tmp_path) as cluster:
        places = (".kube", ".local/share/traincrew/clusters", "")
        text = await output(cluster, LOOK, *(str(home / place) for place in places))
        hidden, clusters, rest = text.splitlines()
        assert (hidden, clusters) == ("[]", "[]")
        assert "file" in rest


@needs_namespaces
async def test_the_administrators_kubeconfig_is_there_if_it_was_asked_for(
    state: Path, tmp_path: Path
) -> None:
    program = "import os; print(open(os.environ['KUBECONFIG']).read())"
    pods = PodOptions(admin_kubeconfig=True)
    async with running(state, tmp_path, pods=pods) as cluster:
        document = json.loads(await output(cluster, program))
        assert document == cluster.kubeconfig()


LIST = f"""
import os
print(os.path.isdir("{ACCOUNT}"), "KUBECONFIG" in os.environ)
"""


@needs_namespaces
@pytest.mark.parametrize(
    ("of_account", "of_pod", "mounted"),
    [(None, None, True), (False, None, False), (False, True, True), (True, False, False)],
)
async def test_who_wants_no_token_gets_none(
    state: Path, tmp_path: Path, of_account: bool | None, of_pod: bool | None, mounted: bool
) -> None:
    async with running(state, tmp_path) as cluster:
        account: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "own"},
        }
        if of_account is not None:
            account |= {"automountServiceAccountToken": of_account}
        await cluster.client.create(SERVICE_ACCOUNTS, account, "default")
        spec: dict[str, Any] = {"serviceAccountName": "own"}
        if of_pod is not None:
            spec |= {"automountServiceAccountToken": of_pod}
        assert await output(cluster, LIST, **spec) == f"{mounted} False\n"


async def test_bare_pods_have_their_account_as_kubeconfig(state: Path, tmp_path: Path) -> None:
    program = "import os; print(open(os.environ['KUBECONFIG']).read())"
    async with running(state, tmp_path, sandbox="bare") as cluster:
        text = await output(cluster, program)
        assert cluster.server.token not in text
        user = json.loads(text)["users"][0]["user"]
        assert list(user) == ["tokenFile"]
        assert user["tokenFile"].startswith(str(state))
        text = await output(cluster, program, name="q", automountServiceAccountToken=False)
        assert "KeyError" in text


STATUS = """
import os
lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(int(lines["CapBnd"], 16), int(lines["CapEff"], 16), lines["NoNewPrivs"].strip())
"""
DEFAULT = 0xA00425FB  # without MKNOD
CHOWN, NET_ADMIN = 1 << 0, 1 << 12


@needs_namespaces
@pytest.mark.parametrize(
    ("security", "bounding", "no_new_privileges"),
    [
        ({}, DEFAULT, 0),
        ({"capabilities": {"drop": ["ALL"]}, "allowPrivilegeEscalation": False}, 0, 1),
        ({"capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}}, CHOWN, 0),
        ({"capabilities": {"drop": ["CAP_CHOWN"]}}, DEFAULT & ~CHOWN, 0),
        ({"capabilities": {"add": ["NET_ADMIN"]}}, DEFAULT | NET_ADMIN, 0),
    ],
)
async def test_capabilities_of_a_container(
    state: Path,
    tmp_path: Path,
    security: dict[str, Any],
    bounding: int,
    no_new_privileges: int,
) -> None:
    async with running(state, tmp_path) as cluster:
        as_root = {**security, "runAsUser": 0}
        text = await output(cluster, STATUS, security=as_root)
        assert text == f"{bounding} {bounding} {no_new_privileges}\n"
        # Another user has none.
        text = await output(cluster, STATUS, name="u", security={**security, "runAsUser": 4711})
        assert text == f"{bounding} 0 {no_new_privileges}\n"
