"""One user attacks the cluster of another one, for real: with another uid on the same machine."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import pwd
import re
import stat
import subprocess
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from suites.fuzz.server import Process
from suites.nobody import usable_python

from .users import LocalUser, two_users

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEADLINE = 30.0
SECRET = "what the pod has written"
LOG_BYTES = 1024 * 1024
POD = f"""
apiVersion: v1
kind: Pod
metadata: {{name: writer}}
spec:
  containers:
  - name: main
    image: busybox:1
    command: [sh, -c, "umask 000; echo '{SECRET}' > /dev/shm/secret; sleep 600"]
"""
JOB = """
apiVersion: kubeflow.org/v1alpha1
kind: ChainerJob
metadata: {{name: digits}}
spec:
  master:
    template:
      spec:
        containers:
        - name: chainer
          image: busybox:1
          command: [sh, -c, "echo begun; while [ ! -e {end} ]; do sleep 0.1; done; echo ended"]
"""
OPEN_PAGE = """
import json, sys, urllib.error, urllib.request

port, token = sys.argv[1:]
with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=20) as answer:
    assert b"<html" in answer.read()
body = json.dumps({"token": token}).encode()
try:
    urllib.request.urlopen(f"http://127.0.0.1:{port}/session", body, timeout=20)
except urllib.error.HTTPError as error:
    assert error.code == 403, error  # it was opened before
"""
SHOW_PODS = """
import asyncio, sys
from traincrew.engine.client import Client
from traincrew.engine.config import load_config
from traincrew.engine.resources import PODS
import yaml

async def main(action):
    async with Client(load_config(sys.argv[1])) as client:
        if action == "create":
            await client.create(PODS, yaml.safe_load(sys.argv[3]), "default")
        for pod in (await client.list(PODS, "default"))["items"]:
            print(pod["metadata"]["name"], pod["status"].get("phase"))

asyncio.run(main(sys.argv[2]))
"""


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@pytest.fixture(scope="module")
def users() -> Iterator[tuple[LocalUser, LocalUser]]:
    if os.geteuid() != 0:
        pytest.skip("two local users: only root can make them (useradd)")
    python = usable_python()
    if python is None:
        pytest.skip("two local users: no interpreter of this version that other users may run")
    with two_users(python) as made:
        made[1].runs("-c", "import suites.trust.attacks, traincrew")
        yield made


@pytest.fixture(scope="module")
def planted(users: tuple[LocalUser, LocalUser]) -> dict[Path, os.stat_result]:
    """What the attacker has created before the first start."""
    owner, attacker = users
    victim = owner.home / "thesis"
    victim.write_text("years of work")
    os.chown(victim, owner.uid, -1)
    paths = map(Path, attacker.attacks("plant", owner.uid, victim))
    return {path: path.lstat() for path in paths}


@pytest.fixture(scope="module")
def owner(users: tuple[LocalUser, LocalUser], planted: dict[Path, os.stat_result]) -> LocalUser:
    """A user whose cluster has been started with a careless umask, and runs a pod."""
    user = users[0]
    user.traincrew("up", "--kubeconfig", str(user.kubeconfig), umask=0)
    user.runs("-c", SHOW_PODS, str(user.kubeconfig), "create", POD)
    until(lambda: "writer Running" in pods_of(user), "the pod runs")
    return user


@pytest.fixture
def attacker(users: tuple[LocalUser, LocalUser]) -> LocalUser:
    return users[1]


def pods_of(user: LocalUser, code: int | None = 0) -> str:
    return user.runs("-c", SHOW_PODS, str(user.kubeconfig), "show", code=code)


def port_of(user: LocalUser) -> int:
    return int(user.cluster()["server"].rpartition(":")[2])


def test_planted_names_are_left_alone(
    owner: LocalUser, planted: dict[Path, os.stat_result]
) -> None:
    assert owner.cluster()["state"] == "running"
    assert (owner.home / "thesis").read_text() == "years of work"
    for path, before in planted.items():
        now = path.lstat()
        assert (now.st_ino, now.st_mode, now.st_uid) == (
            before.st_ino,
            before.st_mode,
            before.st_uid,
        )
        if stat.S_ISDIR(now.st_mode):
            assert sorted(each.name for each in path.iterdir()) == [
                ".owner",
                "node",
                "serving.lock",
            ]


def test_nothing_private_can_be_read(owner: LocalUser, attacker: LocalUser) -> None:
    memory = [
        path
        for path in Path("/dev/shm").glob("traincrew-*/**/secret")
        if path.read_text() == f"{SECRET}\n"
    ]
    assert memory  # the pod's file is there, for its owner
    state = owner.home / ".local" / "share" / "traincrew"
    assert state.is_dir()
    assert attacker.attacks("read", owner.uid, state, owner.kubeconfig.parent / "config") == []
    assert stat.S_IMODE(owner.kubeconfig.stat().st_mode) == 0o600
    assert attacker.attacks("sockets", owner.uid) == []


def test_nothing_of_the_caches_can_be_written(owner: LocalUser, attacker: LocalUser) -> None:
    roots = [owner.home / ".cache", owner.home / ".local", owner.home / ".config"]
    assert attacker.attacks("write", *roots) == []


def test_bodies_without_credentials_are_not_inflated(owner: LocalUser, attacker: LocalUser) -> None:
    process = Process(owner.cluster()["process"])
    seconds, memory = process.seconds(), process.memory("VmHWM")
    assert attacker.attacks("bombs", port_of(owner)) == [401, 401]
    assert process.memory("VmHWM") - memory < 32 * 1024 * 1024
    assert process.seconds() - seconds < 2  # inflating both takes longer on any machine


def test_malformed_requests_do_not_fill_the_log(owner: LocalUser, attacker: LocalUser) -> None:
    log = Path(owner.home, ".local/share/traincrew/clusters/default/daemon.log")
    before = log.stat().st_size
    attacker.attacks("malformed", port_of(owner), 400)
    assert log.stat().st_size - before < LOG_BYTES // 8
    assert "writer Running" in pods_of(owner)


def test_idle_connections_stop_nobody(owner: LocalUser, attacker: LocalUser) -> None:
    arguments = ("-m", "suites.trust.attacks", "idle", str(port_of(owner)), "1000")
    with attacker.popen(*arguments, stdout=subprocess.PIPE) as holding:
        assert holding.stdout is not None
        try:
            assert holding.stdout.readline() == "holding\n"
            for _ in range(3):
                assert "writer Running" in pods_of(owner)
        finally:
            holding.kill()


def read_until(output: IO[str], pattern: str) -> re.Match[str]:
    for line in output:
        if found := re.search(pattern, line):
            return found
    raise AssertionError(f"no line has {pattern}")


def test_nobody_stops_a_training_through_its_page(owner: LocalUser, attacker: LocalUser) -> None:
    end, manifest = owner.home / "end", owner.home / "job.yaml"
    manifest.write_text(JOB.format(end=end))
    words = ("-u", "-m", "traincrew.cli", "run", str(manifest), "--ui", "--sandbox", "bare")
    with owner.popen(*words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as run:
        try:
            _try_to_stop(run, attacker, owner)
            end.touch()
            assert run.stdout is not None
            rest = run.stdout.read()
            assert run.wait(60) == 0, rest
        finally:
            run.kill()
    assert "Traceback" not in rest
    assert "Succeeded" in rest


def _try_to_stop(run: subprocess.Popen[str], attacker: LocalUser, owner: LocalUser) -> None:
    assert run.stdout is not None
    port, token = read_until(run.stdout, r"page: http://[\d.]+:(\d+)/#token=([\w-]+)").groups()
    read_until(run.stdout, r"\| begun")
    process = Process(run.pid)
    seconds, memory = process.seconds(), process.memory("VmHWM")
    assert attacker.attacks("sessions", port) == [400, 400, 413, 415, 415]
    assert process.memory("VmHWM") - memory < 32 * 1024 * 1024
    assert process.seconds() - seconds < 2
    crowd = ("-m", "suites.trust.attacks", "idle", port, "950")
    with attacker.popen(*crowd, stdout=subprocess.PIPE) as holding:
        try:
            until(lambda: connections_to(int(port)) > 40, "the attacker has connections")
            for _ in range(3):
                owner.runs("-c", OPEN_PAGE, port, token)
        finally:
            holding.kill()


def connections_to(port: int) -> int:
    """Return how many connections to a port of 127.0.0.1 are established."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    ends = [line.split()[1:4] for line in lines]
    return sum(state == "01" and own.endswith(f":{port:04X}") for own, _, state in ends)


@pytest.fixture
def certificate(attacker: LocalUser) -> Path:
    """A certificate for 127.0.0.1 that the attacker has made."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "kubernetes")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    path = attacker.home / "certificate.pem"
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.write_bytes(secret + made.public_bytes(serialization.Encoding.PEM))
    path.chmod(0o644)
    return path


def test_a_taken_port_learns_nothing(
    owner: LocalUser, attacker: LocalUser, certificate: Path
) -> None:
    """The last test: the owner's server is killed."""
    port, process = port_of(owner), owner.cluster()["process"]
    os.kill(process, 9)
    until(lambda: not Path(f"/proc/{process}").exists(), "the server has ended")
    ready, heard = attacker.home / "ready", attacker.home / "heard"
    arguments = map(str, (port, certificate, ready, heard))
    with attacker.popen("-m", "suites.trust.attacks", "impersonate", *arguments) as fake:
        try:
            until(ready.exists, "the attacker listens on the port")
            refused = pods_of(owner, code=1)
            assert "certificate" in refused.lower()
            said = owner.traincrew("up", code=1)
            name = pwd.getpwuid(attacker.uid).pw_name
            assert f"127.0.0.1:{port} is in use by a program of user {name}: end that" in said
            assert "Traceback" not in said
        finally:
            fake.kill()
    with contextlib.suppress(FileNotFoundError):
        assert heard.read_bytes() == b""
    owner.traincrew("up")
    assert "writer" in pods_of(owner)
