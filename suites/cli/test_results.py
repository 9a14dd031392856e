"""What a run saves of what its pods have written."""

import signal
import subprocess
from pathlib import Path

import pytest

from cli.programs import PROGRAM, nothing_is_left, run
from cli.run.podfiles import JOB, job


def test_files_of_pods_are_kept_for_a_day(tmp_path: Path, environment: dict[str, str]) -> None:
    """A new user learns at the end where the results are; before that, how to choose a place."""
    result = run(environment, "-f", job(tmp_path))
    assert result.returncode == 0, result.stdout + result.stderr
    assert "files that pods write are kept for a day; to save them: --output DIR" in result.stdout
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("Kept for a day")]
    assert line == result.stdout.splitlines()[-1]
    assert ": 5 files, 12 B, outside volumes (/model, /result, " in line
    assert "of 2 pods); PersistentVolumeClaim data: 2 files, 2 B." in line
    assert line.endswith("To save that yourself: --output DIR:/model, --output DIR")
    assert nothing_is_left(environment)

    directory = Path(line.partition(" in ")[2].partition(": ")[0])
    assert directory.stat().st_mode & 0o777 == 0o700
    assert directory.parent.stat().st_mode & 0o777 == 0o700
    (weights,) = directory.glob("default/writes-1-*/*/0/model/weights")
    assert weights.read_text()
    assert sorted(each.name for each in (directory / "claims/default/data").iterdir()) == ["0", "1"]
    shown = subprocess.run(
        [PROGRAM, "runs"], env=environment, capture_output=True, text=True, check=True
    )
    assert "7 files, 14 B" in shown.stdout
    assert str(directory) in shown.stdout


VOLUME = """
apiVersion: v1
kind: PersistentVolume
metadata: {name: mine}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  hostPath: {path: ./data}
---
"""


@pytest.mark.parametrize("saved", [False, True])
def test_a_claim_that_is_bound_to_a_directory_of_the_machine_writes_there(
    tmp_path: Path, environment: dict[str, str], saved: bool
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "kept").write_text("here")
    path = tmp_path / "job.yaml"
    path.write_text(VOLUME + JOB.replace("echo written", "grep here /data/kept || exit 3"))
    options = ("--output", str(tmp_path / "out")) if saved else ()
    result = run(environment, *options, "-f", path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "PersistentVolumeClaim data:" not in result.stdout
    assert "(PersistentVolumeClaim data)" not in result.stdout
    assert sorted(each.name for each in (tmp_path / "data").iterdir()) == ["0", "1", "kept"]
    assert nothing_is_left(environment)


def test_claims_and_paths_are_saved(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["--output", "out", "--output", "results:/result", "--output", "model:/model/"]
    result = run(environment, *arguments, "-f", job(tmp_path))
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Saved in results: 2 files, 4 B (/result of 2 pods)\n" in result.stdout
    assert "Saved in model: 1 file, 6 B (/model of pod writes-1-" in result.stdout
    assert "Saved in out/data: 2 files, 2 B (PersistentVolumeClaim data)\n" in result.stdout
    assert ": 2 files, 2 B, outside volumes (/tmp/temporary of 2 pods)." in result.stdout
    assert sorted(path.name for path in (tmp_path / "out" / "data").iterdir()) == ["0", "1"]
    pods = sorted((tmp_path / "results").iterdir())
    assert [(pod / "index").read_text() for pod in pods] == ["0\n", "1\n"]
    assert [pod.name.rpartition("-")[0] for pod in pods] == ["writes-0", "writes-1"]
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["weights"]
    assert nothing_is_left(environment)


def test_results_are_saved_when_a_run_is_interrupted(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    out = tmp_path / "out"
    command = [PROGRAM, "run", "-f", str(job(tmp_path)), "--env", "SLEEP=1000",
               "--output", f"{out}:/result"]  # fmt: skip
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = (line for line in process.stdout if line.endswith("| written\n"))
        assert next(lines)
        assert next(lines)
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait(60) == 130
    assert f"Saved in {out}: 2 files, 4 B (/result of 2 pods)" in rest
    assert len(list(out.iterdir())) == 2
    assert nothing_is_left(environment)


def test_bare_mode_cannot_save_paths(tmp_path: Path, environment: dict[str, str]) -> None:
    options = ["--sandbox", "bare", "--output", f"{tmp_path}/out:/result"]
    result = run(environment, *options, "-f", job(tmp_path))
    assert result.returncode == 2
    assert "pods are plain processes on this machine" in result.stderr
    assert nothing_is_left(environment)
