"""`traincrew.progress` in a program: what it sends, and that nothing of it disturbs the program."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import traincrew.progress
from traincrew.operator.progress.certificates import make_authority

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX = "KUBEFLOW_TRAINER_SERVER_"
PATH = "/apis/elastic.pytorch.org/v1alpha1/namespaces/default/elasticjobs/flowers/status"


class Server:
    """An endpoint that keeps what it gets, and answers with a status code."""

    def __init__(self, directory: Path) -> None:
        self.code = 200
        self.received: list[tuple[dict[str, str], dict[str, Any]]] = []
        self.positions: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.note(self.path, dict(self.headers), json.loads(body))
                self.send_response(outer.code)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        authority = make_authority()
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = authority.context(["127.0.0.1"])
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        (directory / "ca.crt").write_text(authority.certificate)
        (directory / "token").write_text("the-token\n")
        self.environment = {
            f"{PREFIX}URL": f"https://127.0.0.1:{self._server.server_port}{PATH}",
            f"{PREFIX}CA_CERT": str(directory / "ca.crt"),
            f"{PREFIX}TOKEN": str(directory / "token"),
            # A proxy that does not exist: the endpoint is in the cluster.
            "https_proxy": "http://127.0.0.1:9",
        }

    def note(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> None:
        with self._changed:
            if path.endswith("/ranks"):
                self.positions.append(body)
            else:
                self.received.append((headers, body))
            self._changed.notify_all()

    @property
    def statuses(self) -> list[dict[str, Any]]:
        return [body["trainerStatus"] for _, body in self.received]

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    found = Server(tmp_path)
    yield found
    found.close()


def run(program: str, environment: dict[str, str], directory: Path) -> str:
    """Run a program that has only a copy of the file; return its output."""
    shutil.copy(traincrew.progress.__file__, directory / "progress_copy.py")
    names = (*traincrew.progress.RANKS, *traincrew.progress.SIZES, "PYTHONPATH")
    inherited = {key: value for key, value in os.environ.items() if key not in names}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=directory,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


LAST = "from progress_copy import report\nfor n in range(101): asked = report(n, 100 - n, {'loss': 1 / (n + 1)})\nprint(asked)"  # noqa: E501


def test_the_last_report_arrives_although_the_program_ends_at_once(
    server: Server, tmp_path: Path
) -> None:
    assert run(LAST, server.environment, tmp_path) == "True"

    headers, _ = server.received[-1]
    assert headers["Authorization"] == "Bearer the-token"
    assert headers["Content-Type"] == "application/json"
    last = server.statuses[-1]
    assert last.pop("lastUpdatedTime").endswith("Z")
    assert last == {
        "progressPercentage": 100,
        "estimatedRemainingSeconds": 0,
        "metrics": [{"name": "loss", "value": str(1 / 101)}],
    }
    # One for the start and one for the end; a slow machine may get a second of training between.
    assert len(server.received) < 20


def test_track_reports_percentage_and_time_left(server: Server, tmp_path: Path) -> None:
    program = "from progress_copy import track\nprint([n for n in track(range(4))])"
    assert run(program, server.environment, tmp_path) == "[0, 1, 2, 3]"

    assert server.statuses[-1]["progressPercentage"] == 100
    assert server.statuses[-1]["estimatedRemainingSeconds"] == 0


def test_metrics_and_percentages_are_kept_until_they_are_reported_again(
    server: Server, tmp_path: Path
) -> None:
    program = (
        "from progress_copy import report\n"
        "report(50)\nreport(metrics={'loss': 2})\nreport(metrics={'accuracy': float('nan')})"
    )
    run(program, server.environment, tmp_path)

    last = server.statuses[-1]
    assert last["progressPercentage"] == 50
    assert last["metrics"] == [
        {"name": "loss", "value": "2"},
        {"name": "accuracy", "value": "nan"},
    ]


@pytest.mark.parametrize(
    "call",
    [
        "report('half')",
        "report(float('nan'), float('inf'), {'x': object()})",
        "report(metrics=5)",
        "list(track(iter('ab')))",
        "report(1e400)",
    ],
)
def test_no_call_raises(server: Server, tmp_path: Path, call: str) -> None:
    program = f"from progress_copy import report, track\n{call}\nprint('trained')"
    assert run(program, server.environment, tmp_path) == "trained"


def test_without_the_variables_nothing_happens(server: Server, tmp_path: Path) -> None:
    program = f"{LAST}\nimport sys, threading\nprint(threading.active_count())"
    assert run(program, {}, tmp_path) == "False\n1"
    assert server.received == []


@pytest.mark.parametrize("variable", traincrew.progress.RANKS)
def test_only_the_first_rank_reports(server: Server, tmp_path: Path, variable: str) -> None:
    assert run(LAST, {**server.environment, variable: "1"}, tmp_path) == "False"
    assert server.received == []
    assert server.positions[-1] == {"rank": 1, "percentage": 100}
    assert run(LAST, {**server.environment, variable: "0"}, tmp_path) == "True"
    assert server.received
    assert server.positions[-1] == {"rank": 0, "percentage": 100}


RANK_3 = {"RANK": "3", "WORLD_SIZE": "8"}


def test_a_rank_says_how_far_it_is_a_few_seconds_later(server: Server, tmp_path: Path) -> None:
    program = (
        "import random, threading\nimport progress_copy\n"
        "progress_copy.POSITION_INTERVAL = 0.1\nrandom.seed(1)\n"
        "sent, send = threading.Event(), progress_copy._Sender._send\n"
        "def noted(self, body):\n    send(self, body)\n    sent.set()\n"
        "progress_copy._Sender._send = noted\n"
        "progress_copy.report(41.2512, metrics={'loss': 1})\n"
        "assert sent.wait(30)\n"
        "assert random.random() == random.Random(1).random()"
    )
    run(program, {**server.environment, **RANK_3}, tmp_path)
    assert server.positions == [{"rank": 3, "worldSize": 8, "percentage": 41.25}]
    assert server.received == []


@pytest.mark.parametrize("rank", ["0", "3"])
def test_what_was_not_accepted_is_sent_again(server: Server, tmp_path: Path, rank: str) -> None:
    """It may be the last one before the program hangs."""
    program = (
        "import threading\nimport progress_copy as copy\n"
        "copy.POSITION_INTERVAL, copy.RETRY_SECONDS = 0.1, 0.1\n"
        "tries, done, send = [], threading.Event(), copy._Sender._send\n"
        "def flaky(self, body):\n"
        "    tries.append(body)\n"
        "    if len(tries) < 4: raise OSError('no endpoint')\n"
        "    send(self, body)\n    done.set()\n"
        "copy._Sender._send = flaky\ncopy.report(41)\nassert done.wait(30)"
    )
    run(program, {**server.environment, "RANK": rank, "WORLD_SIZE": "8"}, tmp_path)
    assert server.positions or server.received


def test_no_program_waits_to_say_how_far_it_is(server: Server, tmp_path: Path) -> None:
    """A thousand ranks that end together would only be in each other's way."""
    program = (
        "import progress_copy\nprogress_copy.POSITION_INTERVAL = 10 ** 9\n"
        "progress_copy.report(50)\nprogress_copy.report(metrics={'loss': 1})"
    )
    run(program, {**server.environment, **RANK_3}, tmp_path)
    assert server.positions == []


@pytest.mark.parametrize(
    "environment",
    [
        {"RANK": "3", "URL": "trainer.kubeflow.org/v1alpha1"},
        {"RANK": "0", "WORLD_SIZE": "1"},
        {"RANK": "three"},
        {},
    ],
)
def test_positions_are_for_servers_of_ours_and_for_several_ranks(
    server: Server, tmp_path: Path, environment: dict[str, str]
) -> None:
    group = environment.pop("URL", "elastic.pytorch.org/v1alpha1")
    url = server.environment[f"{PREFIX}URL"].replace("elastic.pytorch.org/v1alpha1", group)
    run(LAST, {**server.environment, f"{PREFIX}URL": url, **environment}, tmp_path)
    assert server.positions == []


def test_track_says_where_each_rank_is(server: Server, tmp_path: Path) -> None:
    program = "from progress_copy import track\nlist(track(range(3)))"
    run(program, {**server.environment, **RANK_3}, tmp_path)
    assert server.positions[-1] == {"rank": 3, "worldSize": 8, "percentage": 100}


@pytest.mark.parametrize("missing", ["TOKEN", "CA_CERT", "URL"])
def test_an_endpoint_that_cannot_be_used_stops_no_program(
    server: Server, tmp_path: Path, missing: str
) -> None:
    wrong = {"TOKEN": "/nowhere", "CA_CERT": "/nowhere", "URL": "https://127.0.0.1:9/status"}
    environment = {**server.environment, f"{PREFIX}{missing}": wrong[missing]}
    assert run(LAST, environment, tmp_path) == "True"
    assert server.received == []


def test_refused_reports_stop_no_program(server: Server, tmp_path: Path) -> None:
    server.code = 429
    assert run(LAST, server.environment, tmp_path) == "True"


def test_a_fork_reports_by_a_thread_of_its_own(server: Server, tmp_path: Path) -> None:
    program = (
        "import os, sys\nfrom progress_copy import report\nreport(1)\n"
        "child = os.fork()\n"
        "if child == 0:\n    report(77)\n    sys.exit()\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    shutil.copy(traincrew.progress.__file__, tmp_path / "progress_copy.py")
    # Python 3.12 and newer warn that a program with threads forks, whatever they do.
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        cwd=tmp_path,
        env={**os.environ, **server.environment},
        check=False,
        timeout=60,
    )
    assert done.returncode == 0
    assert 77 in [each["progressPercentage"] for each in server.statuses]


def test_the_file_is_valid_for_older_versions_of_python() -> None:
    import ast

    text = Path(traincrew.progress.__file__).read_text()
    ast.parse(text, feature_version=(3, 8))
    assert "traincrew." not in text.split('"""', 2)[2]
