"""Processes are distinguished from later ones with the same PID."""

import signal
import subprocess
import threading

from traincrew.cli.cluster import process


def test_a_process_is_identified_and_its_end_detected(sleeper: subprocess.Popen[bytes]) -> None:
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
