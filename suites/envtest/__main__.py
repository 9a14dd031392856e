"""``python -m suites.envtest``: run upstream's suites and write down how many specs pass."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import click
from hack.cluster import binaries, gosuites

from . import results, running


@click.command()
@click.argument("projects", nargs=-1, type=click.Choice(sorted(gosuites.GO_SUITES)))
@click.option("--package", "only", multiple=True, help="Only these packages of the projects.")
@click.option("--upstream", is_flag=True, help="On the real kube-apiserver and etcd.")
def main(projects: tuple[str, ...], only: tuple[str, ...], *, upstream: bool) -> None:
    """Run the suites of PROJECTS, by default of all, and renew table and page."""
    with tempfile.TemporaryDirectory() as directory:
        assets = Path(directory, "bin")
        if upstream:
            assets.mkdir()
            for name in ("etcd", "kube-apiserver", "kubectl"):
                (assets / name).symlink_to(binaries.build(name, click.echo))
        else:
            traincrew = Path(sys.executable).with_name("traincrew")
            subprocess.run([traincrew, "envtest", assets], check=True, stdout=subprocess.DEVNULL)
        for project in projects or sorted(gosuites.GO_SUITES):
            for package in only or gosuites.GO_SUITES[project].packages:
                with tempfile.TemporaryDirectory() as place:
                    specs = running.run(project, package, assets, Path(place))
                table = results.read()
                rows = table.setdefault(project, {})
                rows[package] = results.merged(rows.get(package), specs, upstream=upstream)
                results.write(table)
                click.echo(f"{project} {package}: {sum(s.passed for s in specs)} of {len(specs)}")
                for each in specs:
                    if not each.passed:
                        click.echo(f"  {each.name}\n    {each.message[:800]}")


if __name__ == "__main__":
    main()
