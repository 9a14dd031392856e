"""`traincrew run` as a person uses it; more in suites/cli."""

import signal
import subprocess
from pathlib import Path

from cli.programs import manifest, nothing_is_left, run


def test_a_job_that_succeeds(tmp_path: Path, environment: dict[str, str]) -> None:
    result = run(environment, "-f", manifest(tmp_path, "echo one\necho two >&2\nprintf three"))
    assert result.returncode == 0, result.stdout + result.stderr
    lines = result.stdout.splitlines()
    logs = [line.partition(" | ")[2] for line in lines if " | " in line]
    assert sorted(logs) == ["one", "three", "two"]
    assert "\x1b" not in result.stdout
    assert any(line.endswith("ConfigMap script created") for line in lines)
    assert any(line.endswith("small: Succeeded") for line in lines)
    assert any(line.startswith("ChainerJob small: Succeeded after") for line in lines)
    assert result.stderr == ""
    assert nothing_is_left(environment)


def test_a_job_that_fails_ends_with_its_exit_code_and_says_why(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    result = run(environment, "-f", manifest(tmp_path, "echo no data at /data\nexit 7"))
    assert result.returncode == 7
    _, _, account = result.stdout.partition("ChainerJob small: Failed after")
    assert "Why: BackoffLimitExceeded" in account
    assert "container chainer: exit code 7" in account
    assert "Last lines of its log:\n  no data at /data" in account
    assert nothing_is_left(environment)


def test_a_manifest_the_api_refuses_names_the_field(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    path = manifest(tmp_path, "true")
    path.write_text(path.read_text().replace("backoffLimit", "backofLimit"))
    result = run(environment, "-f", path)
    assert result.returncode == 2
    assert "ChainerJob 'small' is refused" in result.stderr
    assert 'unknown field "spec.master.backofLimit"' in result.stderr
    line = path.read_text().splitlines().index("    backofLimit: 0") + 1
    assert f'  {path}:{line}: unknown field "spec.master.backofLimit"' in result.stderr
    assert f"{path}:9: " in result.stderr
    assert nothing_is_left(environment)


def test_ctrl_c_ends_everything(
    started: subprocess.Popen[str], environment: dict[str, str]
) -> None:
    started.send_signal(signal.SIGINT)
    output, errors = started.communicate(timeout=20)
    assert started.returncode == 130
    assert "everything is removed" in output
    assert "small: not finished (Running)" in output
    assert errors == ""
    assert nothing_is_left(environment)
