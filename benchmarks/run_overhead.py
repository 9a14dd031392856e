"""`traincrew run` of an MPI job compared with a bare `mpiexec` of the same script.

Both in one run, alternating, after one of each to warm up (the environment is built, pages are in
memory). The difference is what the cluster costs: its start, the operator, three sandboxed pods
and their init steps, the wiring of MPI through the API, and the removal of everything.
"""

import asyncio
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from traincrew.local.directories import default_cache
from traincrew.local.images import ImageStore

ROOT = Path(__file__).resolve().parents[1]
MANIFEST = ROOT / "examples" / "chainer" / "chainerjob-mn.yaml"
ROUNDS = 3
GOAL_SECONDS = 2.0


def timed(command: list[str], **options: Any) -> tuple[float, str]:
    started = time.perf_counter()
    result = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    elapsed = time.perf_counter() - started
    if result.returncode != 0:
        raise SystemExit(
            f"{' '.join(command)}: {result.returncode}\n{result.stdout}{result.stderr}"
        )
    return elapsed, result.stdout


def main() -> None:
    master = yaml.safe_load(MANIFEST.read_text())["spec"]["master"]["template"]["spec"]
    container = master["containers"][0]
    store = ImageStore(default_cache())
    environment = asyncio.run(store.pull(container["image"], print))
    program = [str(environment.files.get(part, part)) for part in container["command"]]
    assert environment.prefix is not None
    bare = [str(environment.prefix / "bin" / "mpiexec"), "--oversubscribe", *program[1:]]
    # "-N 1" means one rank per pod; without pods there is one host.
    where = bare.index("-N")
    del bare[where : where + 2]
    traincrew = shutil.which("traincrew", path=str(Path(sys.executable).parent))
    assert traincrew is not None
    whole = [traincrew, "run", "-f", str(MANIFEST)]
    references, figures, starts = [], [], []
    with tempfile.TemporaryDirectory() as scratch:
        variables = {**os.environ, **environment.variables}
        for round_number in range(ROUNDS + 1):
            reference, _ = timed(bare, env=variables, cwd=scratch)
            figure, output = timed(whole)
            if round_number:
                references.append(reference)
                figures.append(figure)
                ready = re.search(r"^ *([0-9.]+)s  cluster ready", output, re.MULTILINE)
                assert ready is not None
                starts.append(float(ready[1]))
    figure, reference = statistics.median(figures), statistics.median(references)
    print(
        f"traincrew run: {figure:.2f} s (cluster ready after {statistics.median(starts):.1f} s);"
        f" bare mpiexec of the same script: {reference:.2f} s;"
        f" {figure - reference:.2f} s more (goal {GOAL_SECONDS} s); median of {ROUNDS}"
    )


if __name__ == "__main__":
    main()
