"""`traincrew run --scale`: a job grows and shrinks while it runs."""

from pathlib import Path

from cli.programs import IMAGE, nothing_is_left, run

# Each worker prints a line and runs until there is a file `end`, which the pod below makes.
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
