"""Start-up of the program and the run of a job that does nothing, beside an empty interpreter.

Processor time of whole processes and their children, in turn: the ratio does not depend on the
machine, and little on what else runs on it. With `--against PROGRAM` the same is done with another
traincrew, such as that of a checkout of an older commit, in the same turns:

    python -m benchmarks startup --against ../older/.venv/bin/traincrew
"""

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDS = 15
GOAL_SECONDS = 0.15
RUN = "traincrew run, of a job that does nothing"
NOBODY = """
clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]
contexts: [{name: a, context: {cluster: a}}]
current-context: a
"""
JOB = """
apiVersion: kubeflow.org/v1alpha1
kind: ChainerJob
metadata: {name: nothing}
spec:
  master:
    template:
      spec:
        containers: [{name: chainer, image: nothing, command: ["true"]}]
"""
CATALOG = """
environments: [{name: nothing, images: [nothing], python: current}]
"""


def processor_seconds(command: list[str], code: int) -> float:
    """Return the user and system time of a command that ends with an exit code.

    That of its children, such as pods, is included.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if result.returncode != code:
        raise SystemExit(f"{' '.join(command)}: {result.returncode}\n{result.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks startup")
    parser.add_argument("--against", metavar="PROGRAM", help="another traincrew to compare with")
    against = parser.parse_args().against
    program = str(Path(sys.executable).with_name("traincrew"))
    with tempfile.TemporaryDirectory() as scratch:
        nobody, job, catalog = (Path(scratch, name) for name in ("kubeconfig", "job", "catalog"))
        nobody.write_text(NOBODY)
        job.write_text(JOB)
        catalog.write_text(CATALOG)
        run = ["run", "-f", str(job), "--images", str(catalog)]
        commands = {
            "python -c pass": ([sys.executable, "-c", "pass"], 0),
            "import traincrew.cli": ([sys.executable, "-c", "import traincrew.cli.main"], 0),
            "traincrew --help": ([program, "--help"], 0),
            "traincrew list, of a cluster that does not answer": (
                [program, "list", "--kubeconfig", str(nobody)],
                1,
            ),
            RUN: ([program, *run], 0),
        }
        if against:
            commands |= {
                f"{against} --help": ([against, "--help"], 0),
                f"{against} run, of the same job": ([against, *run], 0),
            }
        figures: dict[str, list[float]] = {name: [] for name in commands}
        for round_number in range(ROUNDS + 1):
            for name, (command, code) in commands.items():
                used = processor_seconds(command, code)
                if round_number:  # the first one fills the caches of the disk
                    figures[name].append(used)
    reference = statistics.median(figures["python -c pass"])
    for name, measured in figures.items():
        median = statistics.median(measured)
        print(f"{name}: {median * 1000:.0f} ms of processor time, {median / reference:.1f} times")
    if against:
        for ours, theirs in (
            ("traincrew --help", f"{against} --help"),
            (RUN, f"{against} run, of the same job"),
        ):
            pairs = zip(figures[ours], figures[theirs], strict=True)
            ratio = statistics.median(mine / other for mine, other in pairs)
            print(f"{ours}: {ratio:.2f} times that of {theirs}, median of the pairs")
    print(f"goal of --help: {GOAL_SECONDS * 1000:.0f} ms; medians of {ROUNDS}")


if __name__ == "__main__":
    main()
