"""Upstream's own libraries as the oracle: a small Go program around k8s.io/apimachinery.

Needs Go and the Go module proxy. Without Go there is nothing to compare with, and no test here is
collected.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
GO = shutil.which("go")

collect_ignore = [] if GO else ["test_apply.py", "test_strategic.py"]


def pytest_report_header() -> list[str]:
    return [] if GO else ["suites/apimachinery: go is not installed, nothing to compare with"]


class Oracle:
    """The running Go program, which answers requests of one JSON line each."""

    def __init__(self, program: Path) -> None:
        self.process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self, **request: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(10)


@pytest.fixture(scope="session")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    program = tmp_path_factory.mktemp("oracle") / "oracle"
    subprocess.run(["go", "build", "-o", program, "."], cwd=HERE / "oracle", check=True)
    running = Oracle(program)
    yield running
    running.close()
