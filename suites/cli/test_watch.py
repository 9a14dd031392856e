"""`traincrew watch` of pods that run."""

import signal
from pathlib import Path

from cli.anycluster import DEADLINE, Embedded, embedded, own_home, read_until, script

__all__ = ["embedded", "own_home"]


def test_it_ends_with_the_exit_code_of_the_job_and_says_why(
    embedded: Embedded, tmp_path: Path
) -> None:
    wait = "until [ -e /shared/go ]; do sleep 0.05; done"
    document = script("fails", f"echo starting; {wait}; echo no data at /data; exit 7", 1)
    pod = document["spec"]["master"]["template"]["spec"]
    pod["volumes"] = [{"name": "shared", "hostPath": {"path": str(tmp_path)}}]
    pod["containers"][0]["volumeMounts"] = [{"name": "shared", "mountPath": "/shared"}]
    embedded.create(document)
    with embedded.start("watch", "fails") as process:
        shown = read_until(process, "fails: Running")
        (tmp_path / "go").touch()
        rest, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 7
    assert errors == ""
    output = shown + rest
    assert "| no data at /data\n" in output
    _, _, account = output.partition("ChainerJob fails: Failed after")
    assert "Why: BackoffLimitExceeded" in account
    assert "container chainer: exit code 7" in account
    # It is there still, and so is its end.
    again = embedded("watch", "chainerjob/fails", code=7)
    assert "Last lines of its log:\n  starting\n  no data at /data" in again.stdout


def test_a_job_that_runs_on_when_watching_ends(embedded: Embedded) -> None:
    embedded.create(script("stays", "for i in 1 2 3 4; do echo line $i; done; sleep 600"))
    with embedded.start("watch", "chj/stays", "--tail", "1") as process:
        shown = read_until(process, "| line 4")
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 130
    assert "Stopped by Ctrl-C; the job keeps running." in output
    assert "stays: not finished (Running) after" in output
    assert errors == ""
    result = embedded("watch", "stays", "--timeout", "2s", "--tail", "1", code=124)
    assert "| line 4\n" in result.stdout
    assert "| line 3\n" not in result.stdout
    assert "Stopped by --timeout after 2.0 s; the job keeps running." in result.stdout
    assert "fails" not in shown + output


def test_a_job_that_does_not_exist(embedded: Embedded) -> None:
    embedded.create(script("digits", "true"))
    result = embedded("watch", "digit", code=1)
    assert "in namespace default; did you mean digits?" in result.stderr
    result = embedded("watch", "tfjob/digits", code=2)
    assert "there is no kind 'tfjob' here; there are: chainerjob" in result.stderr
    result = embedded("watch", "digits", "-n", "elsewhere", code=1)
    assert "there is no job in namespace elsewhere" in result.stderr
