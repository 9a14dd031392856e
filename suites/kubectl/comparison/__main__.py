"""Run the comparison by hand: `python -m suites.kubectl.comparison [--write]`.

Uses the running cluster that TRAINCREW_REAL_CLUSTER names (`make cluster-up`); it needs the busybox
image. Prints unnamed differences; `--write` writes docs/design/kubectl.md.
"""

from __future__ import annotations

import os
import re
import sys

import click
from hack.cluster import RealCluster

from . import clusters, known_differences, page


def main() -> int:
    """Compare, print, and write the page if requested."""
    real = RealCluster.attach(os.environ.get("TRAINCREW_REAL_CLUSTER", "default"))
    findings, differences = clusters.run(real), known_differences.load()
    for found in findings:
        for line in found.differences:
            covering = [each for each in differences if each.covers(found.command.text, line)]
            for each in covering:
                each.used = True
            if not covering:
                click.echo(f"{found.minor} [{found.group}] {found.command.text}\n    {line}")
    for each in differences:
        if not each.used and not each.sometimes:
            click.echo(f"no longer found:  {each.name}")
    if "--write" in sys.argv[1:]:
        (release,) = re.findall(r"Server Version: (v[\d.]+)", real.kubectl("version"))
        page.PATH.write_text(page.page(findings, differences, release))
    return 0


if __name__ == "__main__":
    sys.exit(main())
