"""Volumes and variables of the command line, in pods that run."""

from pathlib import Path

import pytest

from cli.programs import manifest, nothing_is_left, run
from cli.run.podfiles import pod


def test_volumes_variables_and_relative_host_paths(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, here = tmp_path / "my code", tmp_path / "manifests" / "here"
    (code / "inside").mkdir(parents=True)
    (code / "train.sh").write_text("echo trained with $A, $B\n")
    here.mkdir(parents=True)
    (here / "numbers").write_text("1 2 3\n")
    single = tmp_path / "single"
    single.write_text("one file\n")
    script = (
        "sh /code/train.sh; cat /data/numbers /etc/made/up; echo result > /out/result;"
        "touch /code/x 2> /dev/null || echo refused"
    )
    path = pod(tmp_path / "manifests", script)
    out = tmp_path / "out"
    out.mkdir()
    monkeypatch.chdir(tmp_path)
    result = run(
        environment, "-v", "my code:/code:ro", "-v", "out:/out/", "-v", f"{single}:/etc/made/up",
        "--env", "A=x=y", "-f", path,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    said = [line.partition(" | ")[2] for line in result.stdout.splitlines() if " | " in line]
    assert said == ["trained with x=y, x=y and more", "1 2 3", "one file", "refused"]
    assert (out / "result").read_text() == "result\n"
    assert sorted(each.name for each in code.iterdir()) == ["inside", "train.sh"]
    assert nothing_is_left(environment)


def test_a_users_own_mount_stays_and_the_run_says_that_it_gets_no_reports(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """What a user mounts is there, whole, and the variables are not."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "token").write_text("mine")
    place = "/var/run/secrets/kubeflow/trainer"
    path = manifest(tmp_path, f'echo token $(cat {place}/token) "$KUBEFLOW_TRAINER_SERVER_URL."')
    option = f"{tmp_path}/own:{place}:ro"
    result = run(environment, path, "-v", option)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "| token mine .\n" in result.stdout
    said = " ".join(result.stderr.split())
    assert f"-v {option} takes the place of what programs need to report their progress" in said
    assert "it receives no reports" in said
    assert run(environment, path, "-v", option, "--no-progress").stderr == ""
    result = run(environment, path, "-v", option, "--progress")
    assert result.returncode == 2
    assert "leave out one of them" in result.stderr
    address = "KUBEFLOW_TRAINER_SERVER_URL=https://example.org"
    result = run(environment, path, "--env", address)
    assert "--env KUBEFLOW_TRAINER_SERVER_URL takes the place" in result.stderr
