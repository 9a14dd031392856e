"""The command of an empty list: for this cluster, and a manifest that its kind accepts."""

from __future__ import annotations

import subprocess

import pytest
import yaml

from traincrew.cli.page.firstjob import first_job


@pytest.mark.parametrize(
    ("options", "namespace", "command"),
    [
        (("--context", "prod eu"), None, "traincrew run --context 'prod eu' --detach -f - <<'END'"),
        (
            ("--kubeconfig", "/a/b"),
            "x",
            "traincrew run --kubeconfig /a/b -n x --detach -f - <<'END'",
        ),
        ((), None, "kubectl create -f - <<'END'"),
        ((), "x", "kubectl create -n x -f - <<'END'"),
    ],
)
def test_it_names_the_cluster(
    options: tuple[str, ...], namespace: str | None, command: str
) -> None:
    assert first_job(options, namespace).splitlines()[0] == command


def test_a_shell_passes_on_a_whole_job() -> None:
    # What follows the first line is the same whatever reads it.
    _, _, rest = first_job((), None).partition("\n")
    command = f"cat <<'END'\n{rest}"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True)
    (container,) = yaml.safe_load(done.stdout)["spec"]["master"]["template"]["spec"]["containers"]
    compile(container["command"][2], "command", "exec")
