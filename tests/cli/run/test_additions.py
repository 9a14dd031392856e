"""`traincrew run -v` and `--env`, and relative `hostPath`s: what a run adds to its pods."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.programs import IMAGE, manifest, nothing_is_left, run
from traincrew.cli.main import cli
from traincrew.cli.manifest.documents import load
from traincrew.cli.run.additions import Volume, reports_elsewhere

POD = f"""
apiVersion: v1
kind: Pod
metadata: {{name: alone}}
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: {IMAGE}
    command: [sh, -c, 'SCRIPT']
    env: [{{name: A, value: manifest}}, {{name: B, value: "$(A) and more"}}]
    volumeMounts:
    - {{name: data, mountPath: /data}}
    - {{name: script, mountPath: /script}}
    - {{name: deep, mountPath: /code/inside}}
  volumes:
  - name: data
    hostPath: {{path: here}}
  - name: script
    configMap: {{name: script}}
  - name: deep
    emptyDir: {{}}
"""
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: script}\ndata: {a: b}\n---"


def pod(directory: Path, script: str = "true") -> Path:
    path = directory / "pod.yaml"
    path.write_text(CONFIG_MAP + POD.replace("SCRIPT", script))
    return path


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


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-v", "nowhere:/x"], "does not exist on this machine: create it"),
        (["-v", ".:x"], "begin it with '/'"),
        (["-v", ".:/x/../y"], "must not contain '..'"),
        (["-v", ".:/"], "choose another path"),
        (["-v", ".:/proc/x"], "choose another path"),
        (["-v", "."], "is not SRC:DST"),
        (["-v"], "requires an argument"),
        (["-v", "--verbose"], "short form of --verbose"),
        (["-v", ".:/x", "-v", "/:/x/"], "both are for /x"),
        (["-v", ".:/data/"], 'volumeMounts[0].mountPath mounts volume "data" at /data'),
        (["-v", ".:/script/new"], "nothing can be mounted inside"),
        (["-v", ".:/code:ro"], "leave out ':ro'"),
        (["-v", ".:/kubeflow/chainer-operator/x"], "belongs to the ChainerJob operator"),
        (["--env", "NAME"], "write NAME=VALUE"),
        (["--env", "=x"], "cannot be the name of a variable"),
        (["--env", "A B=x"], "cannot be the name of a variable"),
    ],
)
def test_what_cannot_be_added_is_refused_before_anything_starts(
    tmp_path: Path, options: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["run", "-f", str(pod(tmp_path)), *options])
    assert result.exit_code == 2, result.output
    assert said in result.output
    assert options[0] in result.output


def test_relative_host_paths_are_below_the_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "below").mkdir()
    path = tmp_path / "below" / "job.yaml"
    path.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n"
        "spec:\n  containers: []\n  volumes:\n"
        "  - &one {name: a, hostPath: {path: data}}\n"
        "  - *one\n"
        "  - {name: b, hostPath: {path: /absolute}}\n"
        "  - {name: c, hostPath: {path: ../up}}\n"
        "  - {name: d, hostPath: {path: .}}\n"
    )
    monkeypatch.chdir(tmp_path)
    volumes = load(["below/job.yaml"])[0].content["spec"]["volumes"]
    below = str(tmp_path / "below")
    expected = [f"{below}/data", f"{below}/data", "/absolute", "../up", below]
    assert [volume["hostPath"]["path"] for volume in volumes] == expected


@pytest.mark.parametrize(
    ("target", "taken"),
    [
        ("/var/run/secrets/kubeflow/trainer", True),
        ("/var/run/secrets/kubeflow/trainer/ca.crt", True),
        ("/var/run/secrets/kubeflow", True),
        ("/run/secrets/kubeflow/trainer/token", True),
        ("/var/run/secrets/kubeflow/trainers", False),
        ("/var/run/secrets/other", False),
        ("/data", False),
    ],
)
def test_a_mount_where_programs_find_how_to_report(
    target: str, taken: bool, tmp_path: Path
) -> None:
    text = f"{tmp_path}:{target}"
    volume = Volume(tmp_path, target, False, text)
    assert reports_elsewhere([volume], {}) == (f"-v {text}" if taken else "")


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
