"""Machines that refuse namespaces, as containers of container engines do."""

from __future__ import annotations

import subprocess
from pathlib import Path

from cli.programs import PROGRAM, manifest, nothing_is_left
from cli.seccomp import needs_filter, refuse_namespaces

EXAMPLES = Path(__file__).parents[2] / "examples"
FIX = "--security-opt seccomp=unconfined"


def refused(environment: dict[str, str], *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAM, *map(str, arguments)],
        env=environment,
        preexec_fn=refuse_namespaces,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@needs_filter
def test_run_refuses_to_start(environment: dict[str, str]) -> None:
    result = refused(environment, "run", "-f", EXAMPLES / "chainer/chainerjob-mn.yaml")
    assert result.returncode == 2
    assert "pods cannot be isolated on this machine" in result.stderr
    assert "Operation not permitted" in result.stderr
    assert FIX in result.stderr
    assert "Pulling" not in result.stdout
    assert nothing_is_left(environment)


@needs_filter
def test_up_refuses_to_start_and_leaves_nothing(environment: dict[str, str]) -> None:
    result = refused(environment, "up")
    assert result.returncode == 2
    assert "pods cannot be isolated on this machine" in result.stderr
    assert FIX in result.stderr
    assert result.stdout == ""
    assert nothing_is_left(environment)
    assert "default" not in refused(environment, "status").stdout


@needs_filter
def test_doctor_says_the_same(environment: dict[str, str]) -> None:
    result = refused(environment, "doctor")
    assert result.returncode == 1
    assert "!!  pods have their own file system" in result.stdout
    assert FIX in result.stdout
    assert "!!  sandbox: run and up refuse to start" in result.stdout


@needs_filter
def test_a_job_of_one_pod_runs_bare(tmp_path: Path, environment: dict[str, str]) -> None:
    path = manifest(tmp_path, 'cat "$0"; exit 0')
    result = refused(environment, "run", "--sandbox", "bare", "-f", path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert '| cat "$0"; exit 0' in result.stdout
    assert nothing_is_left(environment)


def test_jobs_of_several_pods_are_refused_in_bare_mode(environment: dict[str, str]) -> None:
    for example in ("chainer/chainerjob-mn.yaml", "elastic/elasticjob.yaml"):
        result = subprocess.run(
            [PROGRAM, "run", "--sandbox", "bare", "-f", EXAMPLES / example],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert result.returncode == 2
        assert "find each other by name" in result.stderr
        assert "--sandbox bare" in result.stderr
    assert nothing_is_left(environment)
