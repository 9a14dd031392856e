"""`traincrew run` as a person uses it: the program in a process of its own, real pods."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

PROGRAM = str(Path(sys.executable).with_name("traincrew"))
IMAGE = "busybox:1"

JOB = """
apiVersion: v1
kind: ConfigMap
metadata: {{name: script}}
data:
  train.sh: |
{script}
---
apiVersion: kubeflow.org/v1alpha1
kind: ChainerJob
metadata: {{name: small}}
spec:
  master:
    backoffLimit: 0
    template:
      spec:
        containers:
        - name: chainer
          image: {image}
          command: [sh, /script/train.sh, "{marker}"]
          volumeMounts: [{{name: script, mountPath: /script}}]
        volumes: [{{name: script, configMap: {{name: script}}}}]
"""


def manifest(directory: Path, script: str, image: str = IMAGE) -> Path:
    indented = "".join(f"    {line}\n" for line in script.splitlines())
    path = directory / "job.yaml"
    path.write_text(JOB.format(script=indented.rstrip("\n"), image=image, marker=directory))
    return path


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return {
        **os.environ,
        "TMPDIR": str(scratch),
        "TRAINCREW_CACHE": str(tmp_path / "cache"),
        "TRAINCREW_HOME": str(tmp_path / "home"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
    }


def run(environment: dict[str, str], *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [PROGRAM, "run", *map(str, arguments)]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def nothing_is_left(environment: dict[str, str]) -> bool:
    """No file in the temporary directory, no process whose environment or command names it."""
    scratch = environment["TMPDIR"]
    if list(Path(scratch).iterdir()):
        return False
    for entry in Path("/proc").iterdir():
        try:
            text = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
        except (OSError, ValueError):
            continue
        if scratch.encode() in text and int(entry.name) != os.getpid():
            return False
    return True


def until(condition: object, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.02)


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
    assert f"{path}:9: " in result.stderr
    assert nothing_is_left(environment)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("kubeflow.org/v1alpha1", "kubeflow.org/v1", "is in kubeflow.org/v1alpha1"),
        ("kind: ChainerJob", "kind: ChainedJob", "there is no job to run in it"),
        ("kind: ConfigMap", "kind: ConfigMop", 'there is no kind "ConfigMop" in "v1"'),
    ],
)
def test_kinds_that_do_not_exist(
    tmp_path: Path, environment: dict[str, str], old: str, new: str, said: str
) -> None:
    path = manifest(tmp_path, "true")
    path.write_text(path.read_text().replace(old, new))
    result = run(environment, "-f", path)
    assert result.returncode == 2
    assert said in result.stderr
    assert nothing_is_left(environment)


def test_a_time_limit(tmp_path: Path, environment: dict[str, str]) -> None:
    result = run(environment, "--timeout", "1s", "-f", manifest(tmp_path, "exec sleep 600"))
    assert result.returncode == 124
    assert "Ended by --timeout after 1.0 s." in result.stdout
    assert nothing_is_left(environment)


def test_an_unknown_image_says_what_to_add(tmp_path: Path, environment: dict[str, str]) -> None:
    path = manifest(tmp_path, "true", image="nobody/knows:1")
    result = run(environment, "--timeout", "2s", "-f", path)
    assert result.returncode == 124
    assert "no environment is defined for it" in result.stdout
    assert str(Path(environment["XDG_CONFIG_HOME"]) / "traincrew") in result.stdout


@pytest.fixture
def started(tmp_path: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    script = "trap '' TERM INT\necho ready\nwhile true; do sleep 0.2; echo tick; done"
    path = manifest(tmp_path, script)
    command = [PROGRAM, "run", "-f", str(path)]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.endswith("| ready\n"):
                break
        yield process
        process.kill()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_signals_end_everything(
    started: subprocess.Popen[str], environment: dict[str, str], number: signal.Signals, code: int
) -> None:
    started.send_signal(number)
    output, errors = started.communicate(timeout=20)
    assert started.returncode == code
    assert "everything is removed" in output
    assert "small: not finished (Running)" in output
    assert errors == ""
    assert nothing_is_left(environment)


def test_a_reader_that_leaves_ends_everything(
    started: subprocess.Popen[str], environment: dict[str, str]
) -> None:
    assert started.stdout is not None
    started.stdout.close()
    assert started.wait(timeout=20) == 141
    until(lambda: nothing_is_left(environment))


def test_a_killed_run_takes_its_pods_along(started: subprocess.Popen[str], tmp_path: Path) -> None:
    def pods() -> list[str]:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                with contextlib.suppress(OSError):
                    command = (entry / "cmdline").read_bytes()
                    if command.endswith(f"/script/train.sh\0{tmp_path}\0".encode()):
                        found.append(entry.name)
        return found

    assert pods()
    started.kill()
    started.wait()
    until(lambda: not pods())


def test_keep_keeps_the_cluster_until_ctrl_c(tmp_path: Path, environment: dict[str, str]) -> None:
    command = [PROGRAM, "run", "--keep", "-f", str(manifest(tmp_path, "exit 3"))]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "export KUBECONFIG=" in line:
                kubeconfig = line.partition("=")[2].strip()
            if "kubectl get chainerjobs,pods" in line:
                break
        assert Path(kubeconfig).exists()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 3
    assert not Path(kubeconfig).exists()
    assert nothing_is_left(environment)


def test_namespaces_are_made(tmp_path: Path, environment: dict[str, str]) -> None:
    path = manifest(tmp_path, "echo hello")
    result = run(environment, "-n", "team", "-f", path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Namespace team created" in result.stdout
    path.write_text(path.read_text().replace("name: small", "name: small, namespace: other"))
    result = run(environment, "-n", "team", "-f", path)
    assert result.returncode == 2
    assert "metadata.namespace is 'other', but --namespace says 'team'" in result.stderr


def test_plain_jobs_and_pods_run_too(tmp_path: Path, environment: dict[str, str]) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: alone}\nspec:\n  restartPolicy: Never\n"
        f"  containers: [{{name: main, image: '{IMAGE}', command: [sh, -c, 'echo hi; exit 4']}}]\n"
    )
    result = run(environment, "-f", path)
    assert result.returncode == 4
    assert "alone | hi" in result.stdout
