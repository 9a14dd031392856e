"""`traincrew run --scale`: scheduled changes of the number of workers."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.programs import manifest, run
from traincrew.cli.commands.run import run_command


def test_only_what_can_be_scaled_is(tmp_path: Path, environment: dict[str, str]) -> None:
    result = run(environment, "-f", manifest(tmp_path, "true"), "--scale", "3@1s")
    assert result.returncode == 2
    told = (
        "--scale: ChainerJob cannot be scaled while it runs, ElasticJob, MPICluster, MPIJob or"
        " PyTorchJob can"
    )
    assert told in result.stderr


@pytest.mark.parametrize("text", ["3", "3@", "@3s", "x@3s", "-1@3s", "3@soon"])
def test_an_invalid_scaling_is_refused(text: str) -> None:
    result = CliRunner().invoke(run_command, ["-f", "x.yaml", "--scale", text])
    assert result.exit_code == 2
    assert "write for example" in result.output
