"""Run every benchmark, or those named: `python -m benchmarks [NAME ...]`.

A benchmark is a module of this package with a `main()` that prints. They run in processes of their
own, one after the other, so that memory figures and imports do not mix.
"""

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
    wanted = sys.argv[1:] or names
    if unknown := sorted(set(wanted) - set(names)):
        print(f"no such benchmark: {', '.join(unknown)}; there are: {', '.join(names)}")
        return 2
    failed = []
    for name in wanted:
        print(f"== {name}", flush=True)
        program = f"import benchmarks.{name} as benchmark; benchmark.main()"
        if subprocess.run([sys.executable, "-c", program], cwd=here.parent, check=False).returncode:
            failed.append(name)
        print(flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
