"""An image that can never be prepared ends a run at once, with the reason and the fix."""

import sys
import time
from pathlib import Path

import pytest

from cli.programs import manifest, nothing_is_left, run

CURRENT = f"{sys.version_info.major}.{sys.version_info.minor}"
UNREACHABLE = "http://127.0.0.1:9/simple"

CASES = {
    "no interpreter": (
        'python: "3.98"',
        ["no Python 3.98 was found on PATH", "uv could not download one", "pyenv install 3.98"],
    ),
    "an index that cannot be reached": (
        (
            f'python: "{CURRENT}", requirements: [one==1], '
            f"pipArguments: [--default-index, {UNREACHABLE}]"
        ),
        [f"Failed to fetch: {UNREACHABLE}/one/", "The package index cannot be reached"],
    ),
    "a requirement that does not exist": (
        f'python: "{CURRENT}", requirements: [one==1], pipArguments: [--no-index]',
        ["uv could not install the requirements: No solution found", "one was not found"],
    ),
}


def catalog(environment: dict[str, str], fields: str) -> None:
    path = Path(environment["XDG_CONFIG_HOME"], "traincrew/environments.yaml")
    path.parent.mkdir(parents=True)
    path.write_text(f"environments:\n- {{name: mine, images: [me/mine], {fields}}}\n")


@pytest.mark.parametrize("case", CASES)
def test_an_environment_that_cannot_be_built_ends_the_run(
    case: str, tmp_path: Path, environment: dict[str, str]
) -> None:
    fields, messages = CASES[case]
    catalog(environment, fields)
    environment |= {"UV_HTTP_RETRIES": "0", "UV_HTTP_TIMEOUT": "5"}
    started = time.monotonic()
    result = run(environment, "-f", manifest(tmp_path, "true", "me/mine:1"))
    assert result.returncode == 2, result.stdout
    assert time.monotonic() - started < 60
    for message in ['image "me/mine:1": environment "mine": ', *messages]:
        assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert nothing_is_left(environment)
    assert list(Path(environment["TRAINCREW_CACHE"], "temporary").iterdir()) == []


def test_a_missing_file_is_found_before_anything_starts(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    catalog(environment, "files: {/app.py: gone.py}")
    result = run(environment, "-f", manifest(tmp_path, "true", "me/mine:1"))
    assert result.returncode == 2
    assert "gone.py, which files puts at /app.py, does not exist" in result.stderr
    assert "cluster ready" not in result.stdout


def test_a_cache_that_cannot_be_written_is_found_before_anything_starts(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    catalog(environment, f'python: "{CURRENT}"')
    Path(environment["TRAINCREW_CACHE"]).write_text("a file")
    result = run(environment, "-f", manifest(tmp_path, "true", "me/mine:1"))
    assert result.returncode == 2
    assert "set TRAINCREW_CACHE to a directory that can be written" in result.stderr
    assert "cluster ready" not in result.stdout
