"""Processes of clusters that stay."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from traincrew.cli.cluster import daemon, daemonlog, process
from traincrew.cli.cluster.files import ClusterFiles, Record, write_file
from traincrew.cli.errors import CommandFailed


def test_a_later_process_of_the_same_number_is_not_signalled(
    sleeper: subprocess.Popen[bytes],
) -> None:
    files = ClusterFiles("default")
    files.make()
    record = Record(pid=sleeper.pid, token="another boot:1", version="0", ready=True)
    write_file(files.record, record)
    assert files.state().kind == "crashed"
    daemon.stop(files, keep_pods=False)
    assert sleeper.poll() is None


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
        write_file(files.record, Record(pid=child.pid, token=token, version="0"))
        daemon.stop(files, keep_pods=False)
        assert child.wait() == -signal.SIGKILL


def fake_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str) -> ClusterFiles:
    """Let another program stand in for the server."""
    package = tmp_path / "fake" / "traincrew" / "cli" / "cluster"
    package.mkdir(parents=True)
    (package.parent.parent / "__init__.py").touch()
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
        f"real = {str(Path(daemon.__file__).parents[3])!r}\n"
        "sys.path.insert(0, real)\n"
        "for name in [n for n in sys.modules if n.startswith('traincrew')]: del sys.modules[name]\n"
        "from traincrew.cli.cluster.files import ClusterFiles, own_record, write_file\n"
        "write_file(ClusterFiles(sys.argv[1]).record, own_record('https://127.0.0.1:1'))\n"
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
    monkeypatch.setattr(daemonlog, "BYTES_KEPT", 10)
    files = fake_server(monkeypatch, tmp_path, "")
    files.log.write_text("more than ten bytes")
    with pytest.raises(CommandFailed):
        daemon.spawn(files, print)
    assert files.log.read_text() == ""
    assert files.log.with_suffix(".log.1").read_text() == "more than ten bytes"
