"""What `traincrew run` does not do before a job runs."""

import gc
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from cli.programs import manifest, nothing_is_left
from traincrew.cli.main import cli

UNUSED = {
    "traincrew.api.reference",
    "traincrew.cli.page",
    "traincrew.cli.run.elsewhere",
    "traincrew.local.apiserver.kinds.autoscaling.horizontal_pod_autoscaler",
    "traincrew.local.apiserver.kinds.table",
    "traincrew.local.apiserver.schema.openapi",
    "traincrew.local.apiserver.schema.protobuf",
    "traincrew.local.images.kubectl",
    "traincrew.operator.manifests",
    "traincrew.predecessors",
}


def test_a_run_imports_nothing_that_it_does_not_use(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    script = (
        f"import sys; sys.argv = ['traincrew', 'run', '-f', {str(manifest(tmp_path, 'true'))!r}]\n"
        "from traincrew.cli.main import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        f"unused = {UNUSED!r} & set(sys.modules)\n"
        "assert not unused, unused\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "small: Succeeded" in result.stdout
    assert nothing_is_left(environment)


def test_a_refused_run_leaves_the_garbage_collector_as_it_was(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["run", "-f", str(tmp_path / "missing.yaml")])
    assert result.exit_code == 2
    assert gc.isenabled()
