"""`traincrew run` in all the ways it can end."""

import contextlib
import signal
import subprocess
from pathlib import Path

import pytest

from cli.programs import IMAGE, PROGRAM, manifest, nothing_is_left, run, until


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "kubeflow.org/v1alpha1",
            "kubeflow.org/v1",
            "did you mean apiVersion: kubeflow.org/v1",
        ),
        ("kind: ChainerJob", "kind: ChainedJob", "did you mean kind: ChainerJob?"),
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
    result = run(environment, "-f", path)
    assert result.returncode == 2
    assert "containers[0].image" in result.stderr
    assert "no environment is defined for it" in result.stderr
    assert "define one: traincrew images map nobody/knows:1 --python 3.11" in result.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signals_end_everything(
    started: subprocess.Popen[str], environment: dict[str, str], number: signal.Signals, code: int
) -> None:
    started.send_signal(number)
    output, errors = started.communicate(timeout=60)
    assert started.returncode == code
    assert "everything is removed" in output
    assert "small: not finished (Running)" in output
    assert errors == ""
    assert nothing_is_left(environment)


def test_a_closed_output_ends_everything(
    started: subprocess.Popen[str], environment: dict[str, str]
) -> None:
    assert started.stdout is not None
    started.stdout.close()
    assert started.wait(timeout=60) == 141
    until(lambda: nothing_is_left(environment))


def test_a_killed_run_ends_its_pods(started: subprocess.Popen[str], tmp_path: Path) -> None:
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
        assert process.wait(60) == 3
    assert not Path(kubeconfig).exists()
    assert nothing_is_left(environment)


def test_namespaces_are_created(tmp_path: Path, environment: dict[str, str]) -> None:
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


def test_the_next_run_removes_what_a_killed_one_left_and_says_so(
    started: subprocess.Popen[str], tmp_path: Path, environment: dict[str, str]
) -> None:
    started.send_signal(signal.SIGKILL)
    started.communicate(timeout=20)
    (left,) = Path(environment["TMPDIR"]).iterdir()
    said = subprocess.run(
        [PROGRAM, "doctor"], env=environment, capture_output=True, text=True, check=False
    )
    assert f"left by killed runs: {left}" in said.stdout
    result = run(environment, "-f", manifest(tmp_path, "true"))
    assert result.returncode == 0
    assert result.stderr == ""
    (line,) = [each for each in result.stdout.splitlines() if "killed" in each]
    assert "removed what 1 killed process had left in" in line
    assert line.rstrip().endswith("MiB")
    assert nothing_is_left(environment)


@pytest.mark.parametrize("asked", [False, True])
def test_pods_have_the_administrators_kubeconfig_only_on_request(
    tmp_path: Path, environment: dict[str, str], *, asked: bool
) -> None:
    path = manifest(tmp_path, 'grep -c clusters "${KUBECONFIG:-/dev/null}"')
    options = ["--admin-in-pods"] if asked else []
    result = run(environment, "-f", path, *options)
    logs = [line.partition(" | ")[2] for line in result.stdout.splitlines() if " | " in line]
    assert (logs[-1] != "0") is asked, result.stdout
    assert result.returncode == (0 if asked else 1)
