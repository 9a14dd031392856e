"""The file of `--controller_config_file`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from traincrew.cli.main import cli
from traincrew.operator.accelerators import LARGEST, AcceleratorsError, read
from traincrew.plan.shared.templates.accelerators import Accelerator, Volume

if TYPE_CHECKING:
    from pathlib import Path

UPSTREAM = """\
accelerators:
  alpha.kubernetes.io/nvidia-gpu:
    volumes:
      - name: nvidia-libraries
        mountPath: /usr/local/nvidia # This path is special; it is in `/etc/ld.so.conf`.
        hostPath:  /var/lib/nvidia-docker/volumes/nvidia_driver/current
"""


def test_the_file_of_mxnet_operator(tmp_path: Path) -> None:
    path = tmp_path / "controller_config_file.yaml"
    path.write_text(UPSTREAM)
    ((name, accelerator),) = read(path).by_resource

    assert name == "alpha.kubernetes.io/nvidia-gpu"
    driver = "/var/lib/nvidia-docker/volumes/nvidia_driver/current"
    assert accelerator == Accelerator((Volume("nvidia-libraries", driver, "/usr/local/nvidia"),))


def test_values_of_variables_are_used_as_they_are_written(tmp_path: Path) -> None:
    values = ["1", "010", "1.50", "yes", "2020-01-01", "'null'", "", "~"]
    lines = [f"    - {{name: V{number}, value: {value}}}" for number, value in enumerate(values)]
    path = tmp_path / "file.yaml"
    path.write_text("\n".join(["accelerators:", "  gpu:", "    envVars:", *lines]))
    ((_, accelerator),) = read(path).by_resource

    found = [value for _, value in accelerator.variables]
    assert found == ["1", "010", "1.50", "yes", "2020-01-01", "null", "", ""]


@pytest.mark.parametrize("text", ["", "# nothing\n", "accelerators:\n", "{}"])
def test_an_empty_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "file.yaml").write_text(text)

    assert read(tmp_path / "file.yaml").by_resource == ()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "cannot read .*file.yaml: no such file or directory"),
        (b"a: [", "file.yaml:[12]: not valid YAML: "),
        (b"a: 1\n\tb: 2", "file.yaml:2: not valid YAML: "),
        (b"a: !!python/object:os.system x", "file.yaml:1: not valid YAML: unsupported tag "),
        (b"a: &b [*b]", "file.yaml:1: not valid YAML: an anchor's value contains itself"),
        (b"a: \xff", "file.yaml: not valid YAML: "),
        (b"[" * 5000, "file.yaml.*: not valid YAML: "),
        (b"a: 1\n---\nb: 2", "file.yaml:2: not valid YAML: expected a single document"),
        (b"x" * (LARGEST + 1), "file.yaml: larger than 1 MiB"),
        (b"accelerators: {gpu: {envVars: x}}", r"file.yaml: accelerators\[gpu\].envVars: 'x' inst"),
    ],
)
def test_mistakes_are_named_with_the_file(tmp_path: Path, data: bytes | None, message: str) -> None:
    path = tmp_path / "file.yaml"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(AcceleratorsError, match=message):
        read(path)


def test_the_operator_ends_with_the_mistake(tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_text("accelerators:\n  nvidia.com/gpu:\n    volumes:\n    - name: lib\n")
    result = CliRunner().invoke(cli, ["operator", f"-controller_config_file={path}"])

    assert result.exit_code == 2
    assert f"--controller_config_file: {path}: accelerators[nvidia.com/gpu].volumes[0]" in (
        result.output
    )
    assert "hostPath: missing; write for example hostPath:" in result.output


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(AcceleratorsError, match="is a directory"):
        read(tmp_path)
