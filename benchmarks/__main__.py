"""Run every benchmark, or those named: `python -m benchmarks [NAME ...]`.

Options of a single benchmark follow its name: `python -m benchmarks real_cluster --jobs 200`.

A benchmark is a module of this package with a `main()` that prints. Each runs in a process of its
own, one after the other, so that memory figures and imports do not mix.
"""

import itertools
import pkgutil
import subprocess
import sys
from pathlib import Path


def main() -> int:
    here = Path(__file__).parent
    names = sorted(
        module.name
        for module in pkgutil.iter_modules([str(here)])
        if not module.name.startswith("_")
    )
    options = list(itertools.dropwhile(lambda word: not word.startswith("-"), sys.argv[1:]))
    named = sys.argv[1 : len(sys.argv) - len(options)]
    if options and len(named) != 1:
        print(f"{' '.join(options)}: name the one benchmark these options are for, before them")
        return 2
    wanted = named or names
    if unknown := sorted(set(wanted) - set(names)):
        print(f"no such benchmark: {', '.join(unknown)}; there are: {', '.join(names)}")
        return 2
    failed = []
    for name in wanted:
        print(f"== {name}", flush=True)
        program = f"import benchmarks.{name} as benchmark; benchmark.main()"
        command = [sys.executable, "-c", program, *options]
        if subprocess.run(command, cwd=here.parent, check=False).returncode:
            failed.append(name)
        print(flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
