"""The sidecars of ``spec.codeSync[].updateSeconds``, whose scripts run here with a real git."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from plan.mpicluster.manifests import everything, interactive, one_shot
from plan.mpicluster.test_children import child, container
from plan.mpicluster.test_codesync import Repository, steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CODE = {"name": "c", "repository": "https://git.example.com/c", "mountPath": "/m"}


def code(**entry: Any) -> dict[str, Any]:
    return {**CODE, "updateSeconds": 5, **entry}


def sidecar(job: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the only sidecar of a cluster's workers."""
    (found,) = [step for step in steps(job, name) if step["name"].endswith("-update")]
    return found


def test_without_the_field_there_is_no_sidecar() -> None:
    names = [step["name"] for step in steps(everything(), "train")]
    assert names == ["chainermn-fetch", "private-fetch"]


def test_sidecars_follow_the_first_fetch_of_everything() -> None:
    other = {**CODE, "name": "d", "mountPath": "/d"}
    found = steps(interactive(codeSync=[code(), other]), "hello")
    assert [step["name"] for step in found] == ["c-fetch", "d-fetch", "c-update"]
    assert [step.get("restartPolicy") for step in found] == [None, None, "Always"]


def test_the_master_of_a_command_that_is_not_repeated_has_one_as_well() -> None:
    job = one_shot(codeSync=[code()], runPolicy={"backoffLimit": 0})
    pod = child(job, "Pod", f"{job['metadata']['name']}-master")["spec"]
    assert pod["restartPolicy"] == "Never"
    assert pod["initContainers"][-1]["restartPolicy"] == "Always"


def test_the_directory_is_found_by_links() -> None:
    """A subPath would show what was there when the container started."""
    job = interactive(codeSync=[code(subPath="c/examples")])
    template = child(job, "StatefulSet", "hello-worker")["spec"]["template"]
    assert {"name": "kube-openmpi-sync-c", "mountPath": "/m"} in container(template, "mpi-worker")[
        "volumeMounts"
    ]


def test_a_key_is_on_no_volume_of_another_sidecar() -> None:
    entries = [code(secretName="key"), code(name="d", mountPath="/d", secretName="key")]
    job = interactive(codeSync=entries)
    worker = child(job, "StatefulSet", "hello-worker")["spec"]["template"]["spec"]
    homes = {
        step["name"]: next(m["name"] for m in step["volumeMounts"] if m["mountPath"] == "/tmp")
        for step in worker["initContainers"]
    }
    assert homes == {
        "c-fetch": "kube-openmpi-git-home-c",
        "c-update": "kube-openmpi-git-home-c",
        "d-fetch": "kube-openmpi-git-home-d",
        "d-update": "kube-openmpi-git-home-d",
    }
    in_memory = [each["name"] for each in worker["volumes"] if each.get("emptyDir")
                 == {"medium": "Memory"}]  # fmt: skip
    assert in_memory == ["kube-openmpi-git-home-c", "kube-openmpi-git-home-d"]


def test_it_is_admitted_wherever_the_container_is() -> None:
    restricted = {"runAsNonRoot": True, "allowPrivilegeEscalation": False}
    job = interactive(codeSync=[code()])
    main = job["spec"]["workers"]["template"]["spec"]["containers"][0]
    main["securityContext"] = restricted
    assert sidecar(job, "hello")["securityContext"] == restricted


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (None, None),
        ({"limits": {"nvidia.com/gpu": 1}}, None),
        # Guaranteed stays Guaranteed.
        (
            {"limits": {"cpu": "8", "memory": "64Gi"}},
            {"limits": {"cpu": "250m", "memory": "512Mi"}},
        ),
        (
            {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}},
            {"requests": {"memory": "512Mi"}, "limits": {"memory": "512Mi"}},
        ),
    ],
)
def test_it_needs_little_beside_the_container(given: Any, wanted: Any) -> None:
    """What init containers need is needed before, what sidecars need at the same time."""
    job = interactive(codeSync=[code()])
    if given is not None:
        job["spec"]["workers"]["template"]["spec"]["containers"][0]["resources"] = given
    assert sidecar(job, "hello").get("resources") == wanted


def test_a_failed_update_never_ends_it() -> None:
    for seconds, period in ((5, 5), (3600, 60)):
        probe = sidecar(interactive(codeSync=[code(updateSeconds=seconds)]), "hello")[
            "livenessProbe"
        ]
        assert (probe["periodSeconds"], probe["failureThreshold"]) == (period, 2**31 - 1)


# -- the scripts ----------------------------------------------------------------------------------


class Updated(Repository):
    """A repository and the volume of a pod that is kept up to date with it."""

    def containers(self, **entry: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        job = interactive(codeSync=[code(repository=self.address, **entry)])
        first, then = steps(job, "hello")
        return first, then

    def environment(self, step: dict[str, Any]) -> dict[str, str]:
        given = {each["name"]: each["value"] for each in step["env"]}
        return {"PATH": os.environ["PATH"], **given, "HOME": str(self.home)}

    def start(self, **entry: Any) -> subprocess.CompletedProcess[str]:
        """Run the init container."""
        step, _ = self.containers(**entry)
        return subprocess.run(
            [*step["command"][:-2], str(self.volume), str(self.secret)],
            env=self.environment(step),
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip

    def update(self, **entry: Any) -> str:
        """Run it again, as the sidecar does; return what it prints."""
        done = self.start(**entry)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def push(self, text: str) -> str:
        """Commit a change on the server."""
        commit = self.commit(text)
        self.git("push", "--quiet", str(self.served), "HEAD:main")
        return commit

    @property
    def visible(self) -> list[str]:
        """What there is in the mounted directory."""
        names = (path.name for path in self.volume.iterdir())
        return sorted(name for name in names if not name.startswith(".."))


@pytest.fixture
def updated(tmp_path: Path) -> Updated:
    return Updated(tmp_path)


def test_new_commits_are_published_and_nothing_else_is(updated: Updated) -> None:
    assert updated.update() == f"{updated.address}: {updated.last}\n"
    assert updated.update() == "", "nothing new"
    third = updated.push("three")
    assert updated.update() == f"{updated.address}: {third}\n"
    assert (updated.volume / "c/examples/file").read_text() == "three"
    assert updated.visible == ["c"]
    assert str((updated.volume / "..data").readlink()) == f"..code/{third}"
    assert [path.name for path in updated.home.iterdir()] == []


def test_a_directory_with_its_files(updated: Updated) -> None:
    (updated.work / "examples/old").write_text("old")
    updated.push("three")
    updated.update(subPath="c/examples")
    assert updated.visible == ["file", "old"]
    (updated.work / "examples/old").unlink()
    (updated.work / "examples/.new").write_text("new")
    updated.push("four")
    # Of other volumes that are mounted in it.
    (updated.volume / "data").mkdir()
    updated.update(subPath="c/examples")
    assert updated.visible == [".new", "data", "file"]
    assert (updated.volume / "file").read_text() == "four"


def test_a_version_is_read_to_its_end(updated: Updated) -> None:
    """By a program whose directory it is, until two more have come."""
    updated.update(subPath="c/examples")
    reader = (updated.volume / "file").resolve()
    for text in ("three", "four"):
        updated.push(text)
        updated.update(subPath="c/examples")
        assert reader.read_text() == "two"
    updated.push("five")
    updated.update(subPath="c/examples")
    assert not reader.exists()
    assert len(list((updated.volume / "..code").iterdir())) == 3


def test_history_may_be_rewritten(updated: Updated) -> None:
    updated.update(branch="main")
    updated.git("reset", "--quiet", "--hard", updated.first)
    updated.git("push", "--quiet", "--force", str(updated.served), "HEAD:main")
    assert updated.update(branch="main") == f"{updated.address}: {updated.first}\n"
    assert (updated.volume / "c/examples/file").read_text() == "one"


def test_a_branch_that_is_gone_leaves_the_code_as_it_was(updated: Updated) -> None:
    updated.git("push", "--quiet", str(updated.served), "HEAD:other")
    updated.update(branch="other")
    updated.git("push", "--quiet", str(updated.served), ":other")
    done = updated.start(branch="other")
    assert done.returncode != 0
    assert "Remote branch other not found" in done.stderr
    assert (updated.volume / "c/examples/file").read_text() == "two"
    assert updated.visible == ["c"]


def test_a_directory_that_is_gone_or_a_file(updated: Updated) -> None:
    done = updated.start(subPath="c/examples/file")
    assert "examples/file is a file; with updateSeconds it has to be a directory" in done.stderr
    updated.update(subPath="c/examples")
    updated.git("mv", "examples", "samples")
    updated.git("commit", "--quiet", "--message=move")
    updated.git("push", "--quiet", str(updated.served), "HEAD:main")
    done = updated.start(subPath="c/examples")
    assert "subPath: there is no examples in" in done.stderr
    assert (updated.volume / "file").read_text() == "two"


def until(what: str, condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@pytest.fixture
def running(updated: Updated) -> Iterator[tuple[Updated, subprocess.Popen[bytes]]]:
    """A sidecar that looks every 0.2 s; its output is the file ``log``."""
    updated.update()
    _, step = updated.containers()
    *command, _, _, script = step["command"]
    with (updated.home.parent / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, str(updated.volume), str(updated.secret), script],
            env={**updated.environment(step), "GIT_SYNC_PERIOD": "0.2"},
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        try:
            yield updated, process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_a_server_that_is_gone_for_a_while(
    running: tuple[Updated, subprocess.Popen[bytes]],
) -> None:
    updated, process = running
    _, step = updated.containers()
    probe = step["livenessProbe"]["exec"]["command"]
    log = updated.home.parent / "log"

    def probed() -> subprocess.CompletedProcess[str]:
        env = updated.environment(step)
        return subprocess.run(probe, env=env, capture_output=True, text=True, check=False)

    assert (probed().returncode, probed().stdout) == (0, "")
    away = updated.served.with_name("away")
    updated.served.rename(away)
    until("it is reported", lambda: probed().returncode == 1)
    assert probed().stdout.startswith("not updated, tried again every 0.2 s:\nfatal: ")
    assert process.poll() is None
    away.rename(updated.served)
    updated.push("three")
    until("it is fetched", lambda: (updated.volume / "c/examples/file").read_text() == "three")
    until("it is not reported any more", lambda: probed().returncode == 0)
    said = log.read_text()
    # If it goes in the middle of an update, git has another reason at first.
    before, reached, after = said.partition(f"{updated.address}: reached again")
    reports = before.split("not updated")[1:]
    assert len(set(reports)) == len(reports) >= 1, "once for each reason"
    assert reached
    assert "not updated" not in after


def test_it_ends_when_it_is_told_to(running: tuple[Updated, subprocess.Popen[bytes]]) -> None:
    """At once, so that no pod waits for it when its command has ended."""
    updated, process = running
    updated.push("three")
    until("it runs", lambda: (updated.volume / "c/examples/file").read_text() == "three")
    process.send_signal(signal.SIGTERM)
    assert process.wait(5) == 0
