"""Start-up of the program, beside an interpreter that does nothing, in the same run.

Processor time of whole processes, in turn: the ratio does not depend on the machine, and little on
what else runs on it.
"""

import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDS = 15
GOAL_SECONDS = 0.15
NOBODY = """
clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]
contexts: [{name: a, context: {cluster: a}}]
current-context: a
"""


def processor_seconds(command: list[str], code: int) -> float:
    """Return the user and system time of a command that ends with an exit code."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if result.returncode != code:
        raise SystemExit(f"{' '.join(command)}: {result.returncode}\n{result.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    program = str(Path(sys.executable).with_name("traincrew"))
    with tempfile.TemporaryDirectory() as scratch:
        nobody = Path(scratch, "kubeconfig")
        nobody.write_text(NOBODY)
        commands = {
            "python -c pass": ([sys.executable, "-c", "pass"], 0),
            "import traincrew.cli": ([sys.executable, "-c", "import traincrew.cli.main"], 0),
            "traincrew --help": ([program, "--help"], 0),
            "traincrew list, of a cluster that does not answer": (
                [program, "list", "--kubeconfig", str(nobody)],
                1,
            ),
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
    print(f"goal of --help: {GOAL_SECONDS * 1000:.0f} ms; medians of {ROUNDS}")


if __name__ == "__main__":
    main()
