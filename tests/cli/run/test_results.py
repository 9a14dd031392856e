"""`traincrew run --output`: results that are saved, and the line about those that are not."""

import signal
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.programs import IMAGE, PROGRAM, nothing_is_left, run
from traincrew.cli.main import cli
from traincrew.cli.run.results import Output, Results, _move
from traincrew.local.node import ClaimContents, Collected, Written

JOB = f"""
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: data}}
spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Gi}}}}}}
---
apiVersion: batch/v1
kind: Job
metadata: {{name: writes}}
spec:
  completions: 2
  parallelism: 2
  completionMode: Indexed
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: {IMAGE}
        command:
        - sh
        - -c
        - |
          mkdir /result; echo $JOB_COMPLETION_INDEX > /result/index; echo > /tmp/temporary
          echo > /data/$JOB_COMPLETION_INDEX
          if [ $JOB_COMPLETION_INDEX = 1 ]; then mkdir /model; echo model > /model/weights; fi
          echo written; exec sleep $SLEEP
        env: [{{name: SLEEP, value: "0"}}]
        volumeMounts: [{{name: d, mountPath: /data}}]
      volumes: [{{name: d, persistentVolumeClaim: {{claimName: data}}}}]
"""


def job(directory: Path) -> Path:
    path = directory / "job.yaml"
    path.write_text(JOB)
    return path


def test_discarded_files_are_reported(tmp_path: Path, environment: dict[str, str]) -> None:
    result = run(environment, "-f", job(tmp_path))
    assert result.returncode == 0, result.stdout + result.stderr
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("Discarded:")]
    assert line == result.stdout.splitlines()[-1]
    assert line.startswith("Discarded: 5 files, 12 B, outside volumes (/model, /result, ")
    assert "of 2 pods); PersistentVolumeClaim data: 2 files, 2 B." in line
    assert line.endswith("To keep that: --output DIR:/model, --output DIR")
    assert nothing_is_left(environment)


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
    assert "Discarded: 2 files, 2 B, outside volumes (/tmp/temporary of 2 pods)." in result.stdout
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


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--output", "o:relative"], "begin it with '/'"),
        (["--output", ":/x"], "has no directory"),
        (["--output", "job.yaml"], "is not a directory"),
        (["--output", "job.yaml/x"], "cannot write to"),
        (["--output", "o", "--output", "o:/x"], "name a directory for each"),
        (["--output", "o", "--output", "p"], "both save all PersistentVolumeClaims"),
        (["--output", "o:/x/y", "-v", ".:/x"], "on this machine already"),
    ],
)
def test_what_cannot_be_saved_is_refused(
    tmp_path: Path, options: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = job(tmp_path)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["run", "-f", str(path), *options])
    assert result.exit_code == 2, result.output
    assert said in result.output
    assert "--output" in result.output


def test_bare_mode_cannot_save_paths(tmp_path: Path, environment: dict[str, str]) -> None:
    options = ["--sandbox", "bare", "--output", f"{tmp_path}/out:/result"]
    result = run(environment, *options, "-f", job(tmp_path))
    assert result.returncode == 2
    assert "pods are plain processes on this machine" in result.stderr
    assert nothing_is_left(environment)


def saved(directory: Path, *written: Written) -> tuple[Results, list[str]]:
    results = Results([Output(directory / "out", "/r", "out:/r")], "default")
    return results, [line.text for line in results.lines(written, [])]


def collected(directory: Path, pod: str, *, container: str = "main", number: int = 0,
              problem: str = "", content: str = "") -> Written:  # fmt: skip
    to = directory / "staging" / pod / container / str(number)
    if content:
        to.mkdir(parents=True)
        (to / "file").write_text(content)
    one = Collected("/r", str(to), int(bool(content)), len(content), problem)
    return Written(("default", pod, container), number, collected=[one])


def test_the_last_attempt_that_wrote_something_counts(tmp_path: Path) -> None:
    results, lines = saved(
        tmp_path,
        collected(tmp_path, "a", content="first"),
        collected(tmp_path, "a", number=1, content="second"),
        collected(tmp_path, "a", number=2),
        collected(tmp_path, "b"),
    )
    assert not results.problem
    assert lines[0].endswith("out: 1 file, 6 B (/r of pod a)")
    assert (tmp_path / "out" / "file").read_text() == "second"


def test_containers_of_several_pods_have_directories_of_their_own(tmp_path: Path) -> None:
    saved(
        tmp_path,
        collected(tmp_path, "a", content="1"),
        collected(tmp_path, "a", container="side", content="2"),
        collected(tmp_path, "b", content="3"),
    )
    found = {str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("file")}
    assert found == {"a/main/file", "a/side/file", "b/file"}


def test_files_that_cannot_be_saved_are_a_problem(tmp_path: Path) -> None:
    broken = "/r/x: No space left on device\x1b[2J"
    results, lines = saved(tmp_path, collected(tmp_path, "a", problem=broken))
    assert results.problem
    said = "--output out:/r: not everything is saved: a: /r/x: No space left on device?[2J"
    assert lines == [said]


def test_missing_output_is_reported(tmp_path: Path) -> None:
    results, lines = saved(tmp_path, collected(tmp_path, "a"))
    assert not results.problem
    assert lines == ["--output out:/r: no pod wrote anything to /r"]


def test_names_from_pods_cannot_change_the_terminal() -> None:
    report = Written(("default", "p", "main"), files=1, paths=[("/a\x1b[2J\n", 1, 1)])
    claim = ClaimContents("default", "data", Path("/x"), 0, 0, True)
    (line,) = Results([], "default").lines([report], [claim])
    assert line.text == (
        "Discarded: 1 file, 1 B, outside volumes (/a?[2J? of pod p). "
        "To keep that: --output DIR:/a?[2J?"
    )


def test_moving_follows_no_link_of_an_earlier_run(tmp_path: Path) -> None:
    new, out, elsewhere = tmp_path / "new", tmp_path / "out", tmp_path / "elsewhere"
    (new / "sub").mkdir(parents=True)
    (new / "sub" / "file").write_text("new")
    (new / "single").write_text("new")
    out.mkdir()
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("old")
    (out / "sub").symlink_to(elsewhere)
    (out / "single").symlink_to(elsewhere / "kept")
    _move(new, out)
    assert [path.name for path in elsewhere.iterdir()] == ["kept"]
    assert (elsewhere / "kept").read_text() == "old"
    assert (out / "sub" / "file").read_text() == "new"
