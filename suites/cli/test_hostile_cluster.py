"""A cluster whose names, messages and logs contain control sequences: none reaches the terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

import pytest
import yaml

from cli.programs import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# A title, an erased screen, a question to the terminal, a C1 sequence, a bell, a reversed text.
EVIL = "evil\x1b]0;owned\x07\x1b[2J\x1b[6n\x9b5n\x07\u202egnp\rover"
_ALLOWED = re.compile(r"\x1b\[[0-9;]*m|\r?\n|\t")
"""Our own colours, and line breaks as a terminal has them."""


def job(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubeflow.org/v1alpha1",
        "kind": "ChainerJob",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": "u1",
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"master": {"template": {"spec": {"containers": []}}}},
        "status": {
            "phase": f"Pending{EVIL}",
            "message": f"waits for {EVIL}",
            "reason": EVIL,
            "conditions": [
                {"type": "Failed", "status": "True", "reason": EVIL, "message": f"because {EVIL}"}
            ],
        },
    }


def pod() -> dict[str, Any]:
    state = {"terminated": {"exitCode": 1, "reason": EVIL, "message": EVIL}}
    status = {"name": "main", "restartCount": 0, "state": state, "lastState": {}}
    owner = {"apiVersion": "kubeflow.org/v1alpha1", "kind": "ChainerJob", "name": "a", "uid": "u1"}
    return {
        "metadata": {
            "name": f"a-master-{EVIL}",
            "namespace": "default",
            "uid": "p1",
            "resourceVersion": "2",
            "labels": {"chainerjob.kubeflow.org/name": "a"},
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {"containers": [{"name": "main", "image": EVIL}, {"name": EVIL}]},
        "status": {"phase": "Failed", "reason": EVIL, "containerStatuses": [status]},
    }


class Handler(BaseHTTPRequestHandler):
    """Serves one job and its pod, under whatever name is asked for."""

    protocol_version = "HTTP/1.1"
    status: ClassVar[int] = 200

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if self.status != 200:
            self._send(self.status, {"kind": "Status", "message": f"refused: {EVIL}"})
        elif path.endswith("/log"):
            text = f"2026-01-01T00:00:01Z loss \x1b[31mred {EVIL}\n2026-01-01T00:00:02Z \x1b[8mx\n"
            self._send(200, text.encode())
        elif "/chainerjobs/" in path:
            self._send(200, job("a"))
        elif path.endswith("/chainerjobs"):
            self._send(200, {"items": [job(EVIL), job("b")], "metadata": {}})
        elif path.endswith("/pods"):
            self._send(200, {"items": [pod()], "metadata": {}})
        else:
            self._send(404, {"kind": "Status", "reason": "NotFound", "message": EVIL})

    def _send(self, status: int, body: Any) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[Path]:
    """The kubeconfig of the cluster."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    kubeconfig = tmp_path / "kubeconfig"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
        ],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    kubeconfig.write_text(yaml.safe_dump(document))
    yield kubeconfig
    Handler.status = 200
    server.shutdown()
    server.server_close()


def on_a_terminal(kubeconfig: Path, *words: str) -> str:
    """Run a command whose output and errors are a terminal; return what it has written."""
    ours, theirs = pty.openpty()
    command, *rest = words
    environment = {**os.environ, "TERM": "xterm", "TRAINCREW_HOME": str(kubeconfig.parent)}
    environment.pop("NO_COLOR", None)
    written = b""
    with subprocess.Popen(
        [PROGRAM, command, "--kubeconfig", str(kubeconfig), *rest],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env=environment,
    ) as process:
        os.close(theirs)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            written += part
        process.kill()
    os.close(ours)
    return written.decode()


@pytest.mark.parametrize("status", [200, 403, 500])
@pytest.mark.parametrize(
    "words",
    [
        ("list",),
        ("list", "-A", "-o", "json"),
        ("why", "chainerjob/a"),
        ("why", "chainerjob/a", "-o", "json"),
        ("logs", "chainerjob/a"),
        ("logs", "--timestamps", "chainerjob/a"),
        ("verify",),
        ("orphans", "-A"),
    ],
    ids=" ".join,
)
def test_nothing_of_a_cluster_controls_the_terminal(
    hostile: Path, words: tuple[str, ...], status: int
) -> None:
    Handler.status = status
    written = on_a_terminal(hostile, *words)
    assert written
    rest = _ALLOWED.sub("", written)
    assert all(each.isprintable() for each in rest), ascii(written)
    if status == 200 and words[0] in {"list", "why", "logs"}:
        assert "evil" in written


def test_a_name_cannot_fake_a_row_of_the_table(
    hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor hide one: what follows a carriage return is not at the beginning of a line."""
    monkeypatch.setattr(f"{__name__}.EVIL", "x\nChainerJob  fake  Running")
    written = on_a_terminal(hostile, "list")
    rows = [row for row in written.splitlines() if row.strip()]
    assert len(rows) == 3, written
