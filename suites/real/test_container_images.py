"""A container image shows a program the same here as in containerd on a real cluster."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from suites.real.image_probes import PODS, answers

from hack import images

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hack.cluster import RealCluster

SPACE = "image-probes"
SECONDS = 120.0
DIFFERENCES = Path(__file__).with_name("image_differences.toml")


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for something to become true."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {SECONDS:.0f} s"
        time.sleep(0.1)


def ran(kubectl: Callable[..., str]) -> dict[str, dict[str, str]]:
    """Run all pods, and return what their probes printed."""
    for name, spec in PODS.items():
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": SPACE},
            "spec": spec,
        }
        kubectl("apply", "-f", "-", content=json.dumps(pod))
    return {name: answers(_log(kubectl, name)) for name in PODS}


def _log(kubectl: Callable[..., str], name: str) -> str:
    def ended() -> bool:
        phase = kubectl("get", "pod", name, "-n", SPACE, "-o", "jsonpath={.status.phase}")
        assert phase != "Failed", kubectl("logs", name, "-n", SPACE)
        return phase == "Succeeded"

    until(ended, f"pod {name} succeeded")
    return kubectl("logs", name, "-n", SPACE)


@pytest.fixture(scope="module")
def theirs(real_cluster: RealCluster) -> Iterator[dict[str, dict[str, str]]]:
    """What containerd shows."""

    def kubectl(*words: str, content: str | None = None) -> str:
        return real_cluster.kubectl(*words, stdin=content)

    kubectl("create", "namespace", SPACE)
    try:
        until(
            lambda: "default" in kubectl("get", "serviceaccounts", "-n", SPACE, "-o", "name"),
            "the namespace has an account",
        )
        yield ran(kubectl)
    finally:
        kubectl("delete", "namespace", SPACE, "--wait=false")


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, str]]]:
    """What the embedded cluster shows, with the same image."""
    directory = tmp_path_factory.mktemp("embedded")
    environment = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(directory),
        "TRAINCREW_CACHE": str(directory / "cache"),
        "KUBECONFIG": str(directory / "kubeconfig"),
    }

    def run(*words: str, content: str | None = None) -> str:
        done = subprocess.run(
            words, env=environment, input=content, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def kubectl(*words: str, content: str | None = None) -> str:
        program = str(Path(sys.executable).with_name("kubectl"))
        return run(program, *words, content=content)

    traincrew = (sys.executable, "-m", "traincrew.cli")
    run(*traincrew, "images", "import", str(images.build("chainermn")))
    run(*traincrew, "up", "--no-operator", "--kubeconfig", environment["KUBECONFIG"])
    try:
        kubectl("create", "namespace", SPACE)
        yield ran(kubectl)
    finally:
        run(*traincrew, "down")


@pytest.mark.parametrize("pod", PODS)
def test_a_program_sees_what_it_sees_in_containerd(
    theirs: dict[str, dict[str, str]], ours: dict[str, dict[str, str]], pod: str
) -> None:
    known = {
        each["probe"]
        for each in tomllib.loads(DIFFERENCES.read_text())["difference"]
        if pod in each.get("pods", [pod])
    }
    assert theirs[pod].keys() == ours[pod].keys()
    differ = {
        probe: f"containerd: {said}\nhere:       {ours[pod][probe]}"
        for probe, said in theirs[pod].items()
        if said != ours[pod][probe]
    }
    unknown = {probe: text for probe, text in differ.items() if probe not in known}
    assert not unknown, "\n".join(f"{probe}\n{text}" for probe, text in unknown.items())


def test_every_difference_is_one(
    theirs: dict[str, dict[str, str]], ours: dict[str, dict[str, str]]
) -> None:
    for each in tomllib.loads(DIFFERENCES.read_text())["difference"]:
        probe = each["probe"]
        for pod in each.get("pods", PODS):
            assert theirs[pod][probe] != ours[pod][probe], (probe, pod, "is the same by now")
            break
