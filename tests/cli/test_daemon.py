"""Directories and processes of clusters that stay."""

import multiprocessing
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from traincrew.cli import daemon, process
from traincrew.cli.daemon import ClusterFiles, Options, Record
from traincrew.cli.main import BadInput, CommandFailed


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRAINCREW_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(["sleep", "60"])
    yield child
    child.kill()
    child.wait()


def test_home_follows_the_xdg_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRAINCREW_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert daemon.home() == tmp_path / "data" / "traincrew"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert daemon.home() == tmp_path / ".local" / "share" / "traincrew"


@pytest.mark.parametrize("name", ["", "Big", "a/b", "..", "-a", "a-", "x" * 41, "a b"])
def test_names_that_cannot_be(name: str) -> None:
    with pytest.raises(BadInput, match="cannot be a cluster's name"):
        ClusterFiles(name)


def test_directories_are_private() -> None:
    files = ClusterFiles("default")
    with files.locked():
        assert stat.S_IMODE(files.directory.stat().st_mode) == 0o700


def test_a_process_is_recognised_and_its_end_noticed(sleeper: subprocess.Popen[bytes]) -> None:
    token = process.start_token(sleeper.pid)
    assert token is not None
    assert process.is_same(sleeper.pid, token)
    assert not process.is_same(sleeper.pid, token + "1")
    assert not process.wait_until_ended(sleeper.pid, token, 0.05)
    threading.Timer(0.1, sleeper.kill).start()
    assert process.wait_until_ended(sleeper.pid, token, 10)
    # It is not collected yet, and yet it has ended.
    assert process.start_token(sleeper.pid) is None
    assert not process.send(sleeper.pid, token, signal.SIGTERM)


def test_a_later_process_of_the_same_number_is_not_signalled(
    sleeper: subprocess.Popen[bytes],
) -> None:
    files = ClusterFiles("default")
    files.make()
    record = Record(pid=sleeper.pid, token="another boot:1", version="0", ready=True)
    daemon.write_file(files.record, record)
    assert files.state().kind == "crashed"
    daemon.stop(files, keep_pods=False)
    assert sleeper.poll() is None


def test_states(sleeper: subprocess.Popen[bytes]) -> None:
    files = ClusterFiles("default")
    assert files.state().kind == "absent"
    files.make()
    (files.directory / "state.db").touch()
    assert files.state().kind == "stopped"
    files.record.write_text("{half")
    assert files.state().kind == "stopped"
    token = process.start_token(sleeper.pid) or ""
    record = Record(pid=sleeper.pid, token=token, version="0")
    daemon.write_file(files.record, record)
    assert files.state().kind == "starting"
    daemon.write_file(files.record, msgspec.structs.replace(record, ready=True))
    assert files.state().kind == "running"
    assert stat.S_IMODE(files.record.stat().st_mode) == 0o600


def test_a_process_that_ignores_the_signal_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "STOP_SECONDS", 0.5)
    program = (
        "import signal, time\n"
        "signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        files = ClusterFiles("default")
        files.make()
        token = process.start_token(child.pid) or ""
        daemon.write_file(files.record, Record(pid=child.pid, token=token, version="0"))
        daemon.stop(files, keep_pods=False)
        assert child.wait() == -signal.SIGKILL


def _hold(held: object, release: object) -> None:
    with ClusterFiles("default").locked():
        held.set()  # type: ignore[attr-defined]
        release.wait(30)  # type: ignore[attr-defined]


def test_only_one_command_works_on_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "LOCK_SECONDS", 0.3)
    context = multiprocessing.get_context("spawn")
    held, release = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(held, release))
    other.start()
    try:
        assert held.wait(30)
        with (
            pytest.raises(CommandFailed, match="another traincrew command"),
            ClusterFiles("default").locked(),
        ):
            pass
    finally:
        release.set()
        other.join(30)
    with ClusterFiles("default").locked():
        pass


def test_a_lock_survives_the_removal_of_its_directory(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, entered = ClusterFiles("default"), threading.Event()
    waiting, go_on = threading.Event(), threading.Event()

    def second() -> None:
        with ClusterFiles("default").locked():
            assert files.directory.exists()
            entered.set()

    def sleep(_: float) -> None:
        waiting.set()
        go_on.wait(60)

    monkeypatch.setattr(daemon, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))
    thread = threading.Thread(target=second)
    with files.locked():
        thread.start()
        assert waiting.wait(60)
        files.remove()
        assert not home.exists()
        assert not entered.is_set()
        go_on.set()
    thread.join(60)
    assert entered.is_set()


def test_what_an_interrupted_removal_left_goes_with_the_next_one(home: Path) -> None:
    files = ClusterFiles("default")
    files.make()
    left = files.directory.with_name(".default.removed")
    (left / "pods").mkdir(parents=True)
    assert [each.name for each in daemon.all_clusters()] == ["default"]
    files.remove()
    assert not home.exists()


def test_options_are_remembered() -> None:
    files = ClusterFiles("default")
    files.make()
    assert files.read_options() is None
    options = Options(nodes=3, images=("/a.yaml",))
    daemon.write_file(files.options, options)
    assert files.read_options() == options


def fake_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str) -> ClusterFiles:
    """Let another program stand in for the server."""
    package = tmp_path / "fake" / "traincrew" / "cli"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package.parent / "__init__.py").touch()
    (package / "server.py").write_text(program)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "fake"))
    files = ClusterFiles("default")
    files.make()
    return files


def test_the_end_of_the_log_explains_a_failed_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    files = fake_server(monkeypatch, tmp_path, "import sys; sys.exit('no more disk')")
    files.log.write_text("old line\n")
    with pytest.raises(CommandFailed) as caught:
        daemon.spawn(files, print)
    assert caught.value.message == (
        "cluster 'default' did not start: its process ended\n"
        f"The end of {files.log}:\n  no more disk"
    )


def test_progress_is_passed_on_and_a_failure_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = (
        "import os, sys, time\n"
        "fd = int(sys.argv[2])\n"
        'os.write(fd, b\'{"progress": "one"}\\n{"failed": "port 1 is taken"}\\n\')\n'
        "time.sleep(60)\n"
    )
    files = fake_server(monkeypatch, tmp_path, program)
    said: list[str] = []
    with pytest.raises(CommandFailed, match=r"port 1 is taken\nIts log .* is empty"):
        daemon.spawn(files, said.append)
    assert said == ["one"]


def test_a_server_that_never_gets_ready_is_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(daemon, "START_SECONDS", 0.5)
    servers = []

    def noted(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        servers.append(subprocess.Popen(*arguments, **options))
        return servers[-1]

    files = fake_server(monkeypatch, tmp_path, "import time; time.sleep(60)")
    monkeypatch.setattr(
        daemon, "subprocess", SimpleNamespace(**vars(subprocess) | {"Popen": noted})
    )
    with pytest.raises(CommandFailed, match="not ready after"):
        daemon.spawn(files, print)
    (server,) = servers
    assert process.start_token(server.pid) is None


def test_a_ready_server_is_left_running_in_its_own_session(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = (
        "import json, os, sys, time\n"
        "sys.path.pop(0)\n"
        f"real = {str(Path(daemon.__file__).parents[2])!r}\n"
        "sys.path.insert(0, real)\n"
        "for name in [n for n in sys.modules if n.startswith('traincrew')]: del sys.modules[name]\n"
        "from traincrew.cli.daemon import *\n"
        "from traincrew.cli.daemon import own_record\n"
        "record = own_record(); record.ready = True\n"
        "write_file(ClusterFiles(sys.argv[1]).record, record)\n"
        "os.write(int(sys.argv[2]), b'{\"ready\": true}\\n')\n"
        "time.sleep(60)\n"
    )
    files = fake_server(monkeypatch, tmp_path, program.replace("sys.path.pop(0)", "import sys"))
    started = time.monotonic()
    record = daemon.spawn(files, print)
    try:
        assert time.monotonic() - started < 20
        assert files.state().kind == "running"
        assert os.getsid(record.pid) == record.pid
    finally:
        daemon.stop(files, keep_pods=False)
        os.waitpid(record.pid, 0)
    assert files.state().kind == "crashed"


def test_big_logs_are_set_aside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(daemon, "LOG_BYTES_KEPT", 10)
    files = fake_server(monkeypatch, tmp_path, "")
    files.log.write_text("more than ten bytes")
    with pytest.raises(CommandFailed):
        daemon.spawn(files, print)
    assert files.log.read_text() == ""
    assert files.log.with_suffix(".log.1").read_text() == "more than ten bytes"
