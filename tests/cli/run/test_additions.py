"""`traincrew run -v` and `--env`, and relative `hostPath`s: what a run adds to its pods."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.run.podfiles import pod
from traincrew.cli.main import cli
from traincrew.cli.manifest.documents import load
from traincrew.cli.run.additions import Volume, reports_elsewhere, without_script
from traincrew.local.node import HostMount


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


def test_what_to_do_about_a_script_that_is_not_there(tmp_path: Path) -> None:
    assert without_script("/app/train.py", []) == (
        "/app/train.py is not in the environment; mount it: -v .:/app"
    )
    assert without_script("/train.py", []).endswith("mount it: -v ./train.py:/train.py")
    assert without_script("/my code/train.py", []).endswith("mount it: -v '.:/my code'")
    mounted = [HostMount(tmp_path, "/app", False)]
    assert without_script("/app/src/train.py", mounted) == (
        f"/app/src/train.py does not exist: -v mounts {tmp_path} at /app, and there is no"
        f" {tmp_path}/src/train.py"
    )
