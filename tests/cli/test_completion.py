"""What the shell completes: files, names of clusters, images."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = str(Path(sys.executable).with_name("traincrew"))


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    for name in ("default", "other"):
        (tmp_path / "home" / "clusters" / name).mkdir(parents=True)
    catalog = tmp_path / "config" / "traincrew" / "environments.yaml"
    catalog.parent.mkdir(parents=True)
    catalog.write_text(
        "environments:\n- {name: x, python: current, images: [team/train, 'team/other*']}\n"
    )
    return {
        **os.environ,
        "TRAINCREW_HOME": str(tmp_path / "home"),
        "TRAINCREW_CACHE": str(tmp_path / "cache"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "_TRAINCREW_COMPLETE": "bash_complete",
    }


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("run -f jo", ["file,jo"]),
        ("run jo", ["file,jo"]),
        ("run -v sr", ["file,sr"]),
        ("run -v src:/", []),
        ("run --output re", ["dir,re"]),
        ("run --images ca", ["file,ca"]),
        ("up --kubeconfig co", ["file,co"]),
        ("up --name ", ["plain,default", "plain,other"]),
        ("down --name o", ["plain,other"]),
        ("status --name d", ["plain,default"]),
        ("restart --name o", ["plain,other"]),
        ("images pull team/", ["plain,team/train"]),
        (
            "images pull everp",
            [
                "plain,everpeace/chainer",
                "plain,everpeace/chainermn",
                "plain,everpeace/kube-openmpi",
            ],
        ),
    ],
)
def test_completion(machine: dict[str, str], line: str, expected: list[str]) -> None:
    words = ["traincrew", *line.split(" ")]
    variables = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    result = subprocess.run(
        [PROGRAM], env={**machine, **variables}, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert [line for line in result.stdout.splitlines() if line] == expected
    assert result.stderr == ""
