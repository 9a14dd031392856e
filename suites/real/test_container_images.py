"""A container image shows a program the same here as in containerd on a real cluster."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from suites.container_images.users import user_named
from suites.real.image_probes import PODS, answers

from hack import images

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hack.cluster import RealCluster

SPACE = "image-probes"
SECONDS = 120.0
USERS = ("root", "nobody", "mapped")
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


class Ours(NamedTuple):
    """What the embedded cluster of a user shows, with the same image."""

    user: str
    pods: dict[str, dict[str, str]]

    def differences(self, pod: str) -> dict[str, str]:
        """Return the known differences of a pod, by the probe."""
        return {
            each["probe"]: each["why"]
            for each in tomllib.loads(DIFFERENCES.read_text())["difference"]
            if pod in each.get("pods", PODS) and self.user in each.get("users", USERS)
        }


@pytest.fixture(scope="module", params=USERS)
def ours(request: pytest.FixtureRequest) -> Iterator[Ours]:
    """The clusters of root, of nobody, and of an account with subordinate IDs."""
    with user_named(request.param, "probes") as user:
        kubeconfig = user.home / "kubeconfig"

        def kubectl(*words: str, content: str | None = None) -> str:
            done = subprocess.run(
                [str(Path(sys.executable).with_name("kubectl")), *words],
                env={"KUBECONFIG": str(kubeconfig), "HOME": str(user.home)},
                input=content,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, (words, done.stdout, done.stderr)
            return done.stdout

        user.has(images.build("chainermn"))
        user.traincrew("up", "--no-operator", "--kubeconfig", str(kubeconfig))
        try:
            kubectl("create", "namespace", SPACE)
            yield Ours(request.param, ran(kubectl))
        finally:
            user.traincrew("down")


@pytest.mark.parametrize("pod", PODS)
def test_a_program_sees_what_it_sees_in_containerd(
    theirs: dict[str, dict[str, str]], ours: Ours, pod: str
) -> None:
    found, known = ours.pods[pod], ours.differences(pod)
    assert theirs[pod].keys() == found.keys()
    unknown = [
        f"{probe}\ncontainerd: {said}\nhere:       {found[probe]}"
        for probe, said in theirs[pod].items()
        if said != found[probe] and probe not in known
    ]
    assert not unknown, "\n".join(unknown)


@pytest.mark.parametrize("pod", PODS)
def test_every_difference_is_one(theirs: dict[str, dict[str, str]], ours: Ours, pod: str) -> None:
    for probe in ours.differences(pod):
        assert theirs[pod][probe] != ours.pods[pod][probe], (probe, pod, "is the same by now")
