"""`traincrew run --scale`: scheduled changes of the number of workers."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.programs import IMAGE, manifest, nothing_is_left, run
from traincrew.cli.commands.run import run_command

# Ends when a third worker says hello; workers that are told to go say goodbye.
ELASTIC = """
apiVersion: elastic.pytorch.org/v1alpha1
kind: ElasticJob
metadata: {{name: grows}}
spec:
  minReplicas: 1
  maxReplicas: 3
  replicaSpecs:
    Worker:
      replicas: 1
      restartPolicy: ExitCode
      template:
        spec:
          containers:
          - name: elasticjob-worker
            image: {image}
            command: [sh, -c, 'echo hello; until [ -e {directory}/end ]; do sleep 0.05; done']
            volumeMounts: [{{name: shared, mountPath: {directory}}}]
          volumes: [{{name: shared, hostPath: {{path: {directory}}}}}]
"""
THIRD = """
apiVersion: v1
kind: Pod
metadata: {{name: ends-it}}
spec:
  restartPolicy: OnFailure
  containers:
  - name: main
    image: {image}
    command: [sh, -c, 'sleep {seconds}; touch {directory}/end']
    volumeMounts: [{{name: shared, mountPath: {directory}}}]
  volumes: [{{name: shared, hostPath: {{path: {directory}}}}}]
"""


def elastic(directory: Path, seconds: float = 4) -> Path:
    shared = directory / "shared"
    shared.mkdir()
    path = directory / "elastic.yaml"
    texts = (text.format(image=IMAGE, directory=shared, seconds=seconds)
             for text in (THIRD, ELASTIC))  # fmt: skip
    path.write_text("---".join(texts))
    return path


def test_a_job_grows_and_shrinks_by_the_plan(tmp_path: Path, environment: dict[str, str]) -> None:
    plan = ("--scale", "3@0.2s", "--scale", "9@0.5s", "--scale", "2@1.5s")
    result = run(environment, "-f", elastic(tmp_path), *plan)
    assert result.returncode == 0, result.stdout + result.stderr
    told = [line.partition("s  ")[2] for line in result.stdout.splitlines()]
    assert told.index("grows scaled to 3") < told.index("grows scaled to 2")
    (refused,) = [line for line in told if line.startswith("grows: not scaled to 9: ")]
    assert "maxReplicas" in refused
    hellos = {line.split()[0] for line in result.stdout.splitlines() if line.endswith("| hello")}
    assert hellos == {f"grows-worker-{index}" for index in range(3)}
    assert "ElasticJob grows: Succeeded" in result.stdout
    assert nothing_is_left(environment)


def test_only_what_can_be_scaled_is(tmp_path: Path, environment: dict[str, str]) -> None:
    result = run(environment, "-f", manifest(tmp_path, "true"), "--scale", "3@1s")
    assert result.returncode == 2
    told = "--scale: ChainerJob cannot be scaled while it runs, ElasticJob or MPICluster can"
    assert told in result.stderr


@pytest.mark.parametrize("text", ["3", "3@", "@3s", "x@3s", "-1@3s", "3@soon"])
def test_an_invalid_scaling_is_refused(text: str) -> None:
    result = CliRunner().invoke(run_command, ["-f", "x.yaml", "--scale", text])
    assert result.exit_code == 2
    assert "write for example" in result.output
