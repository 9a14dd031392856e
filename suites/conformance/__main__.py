"""Run upstream's tests against an embedded cluster and record which pass.

python -m suites.conformance 'Job should' --limit 60
python -m suites.conformance --failing --write
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path

from hack.cluster import binaries

from . import clusters, table
from .e2e_runner import E2eRunner, Result

UNKNOWN = "not looked into yet"
UNKNOWN_SECONDS = 30
"""Assumed duration of a test that is not in the table: too long for two to share a program."""


def main() -> int:
    """Run the command; return 1 if a selected test did not pass."""
    parser = argparse.ArgumentParser(prog="python -m suites.conformance", description=__doc__)
    parser.add_argument("pattern", nargs="?", default="", help="a regular expression for names")
    parser.add_argument("--failing", action="store_true", help="only those that did not pass yet")
    parser.add_argument("--extra", action="append", default=[], help="a test beyond conformance")
    parser.add_argument("--write", action="store_true", help="write results into the table")
    parser.add_argument("--workers", type=int, default=6, help="programs at the same time")
    parser.add_argument("--limit", type=float, default=300, help="seconds for a hanging test")
    parser.add_argument("--kubeconfig", type=Path, help="test this cluster, which is running")
    parser.add_argument("--directory", type=Path, help="for logs; kept")
    options = parser.parse_args()
    if lacking := clusters.missing():
        sys.exit("missing: " + "; ".join(lacking))
    directory = options.directory or Path(tempfile.mkdtemp(prefix="conformance-"))
    _print(f"logs: {directory}")
    if options.kubeconfig is not None:
        directory.mkdir(parents=True, exist_ok=True)
        program = binaries.build("e2e.test", _print)
        return _run_tests(E2eRunner(program, options.kubeconfig.absolute(), directory), options)
    with clusters.open_clusters(directory, _print) as runner:
        return _run_tests(runner, options)


def _run_tests(runner: E2eRunner, options: argparse.Namespace) -> int:
    known = table.read()
    conformance = {name.removesuffix(table.MARK) for name in runner.names()}
    tests = {
        name + table.MARK: known.passing.get(name, UNKNOWN_SECONDS)
        for name in conformance
        if re.search(options.pattern, name) and not (options.failing and name in known.passing)
    }
    tests |= dict.fromkeys(options.extra, UNKNOWN_SECONDS)

    def report(result: Result) -> None:
        _print_result(result)
        short = result.name.removesuffix(table.MARK)
        if result.passed:
            known.set_passing(short, result.seconds, conformance=result.name != short)
            if options.write:
                table.PATH.write_text(known.text())

    results = runner.run(tests, workers=options.workers, limit=options.limit, on_result=report)
    for name in conformance - known.names:
        known.failing.setdefault(UNKNOWN, []).append(name)
    if options.write:
        table.PATH.write_text(known.text())
    good = sum(result.passed for result in results.values())
    _print(f"{good} of {len(tests)} passed; {len(known.passing)} pass in all")
    return 0 if good == len(tests) else 1


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _print_result(result: Result) -> None:
    word = "passed" if result.passed else "FAILED"
    first = result.message.strip().splitlines()[0] if result.message.strip() else ""
    _print(f"{word} {result.seconds:6.1f} s  {result.name}  {first[:200]}")


if __name__ == "__main__":
    sys.exit(main())
