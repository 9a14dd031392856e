"""The init containers of ``spec.codeSync``, whose script runs here with a real git."""

from __future__ import annotations

import base64
import os
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from plan.mpicluster.manifests import everything, interactive, one_shot
from plan.mpicluster.test_children import child, container
from plan.world import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HINT = "Please make sure you have the correct access rights"
"""What git says whatever the reason."""


def steps(job: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the init containers of a cluster's workers."""
    pod = child(job, "StatefulSet", f"{name}-worker")["spec"]["template"]["spec"]
    found: list[dict[str, Any]] = pod["initContainers"]
    return found


def test_code_is_fetched_with_the_limits_of_the_container_but_without_its_gpu() -> None:
    worker = child(everything(), "StatefulSet", "train-worker")["spec"]["template"]
    public, private = steps(everything(), "train")
    assert (public["name"], private["name"]) == ("chainermn-fetch", "private-fetch")
    assert public["image"] == OPTIONS.git_image
    assert public["resources"]["limits"] == {"memory": "2Gi"}
    assert {
        "name": "kube-openmpi-sync-chainermn",
        "mountPath": "/chainermn-examples",
        "subPath": "chainermn/examples",
    } in container(worker, "mpi-worker")["volumeMounts"]


def test_code_is_fetched_as_the_user_of_the_container() -> None:
    """Nobody becomes root, so that the restricted Pod Security Standard allows the pod."""
    job = everything()
    restricted = {
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    main = job["spec"]["workers"]["template"]["spec"]["containers"][0]
    assert all("securityContext" not in step for step in steps(job, "train"))
    main["securityContext"] = restricted
    assert [step["securityContext"] for step in steps(job, "train")] == [restricted] * 2
    worker = child(job, "StatefulSet", "train-worker")["spec"]["template"]["spec"]
    (secret,) = [each for each in worker["volumes"] if each["name"].endswith("-private-secret")]
    # Any user can read it, but no other container has it.
    assert secret["secret"] == {"secretName": "git-key", "defaultMode": 0o444}
    mounting = [
        each["name"]
        for each in (*worker["initContainers"], *worker["containers"])
        if secret["name"] in {mount["name"] for mount in each.get("volumeMounts", ())}
    ]
    assert mounting == ["private-fetch"]


@pytest.mark.parametrize(
    ("branch", "variable"),
    [
        ("master", "GIT_SYNC_BRANCH"),
        ("v1.0", "GIT_SYNC_BRANCH"),
        ("0123abc", "GIT_SYNC_BRANCH"),
        ("0123456789" * 4, "GIT_SYNC_REV"),
        ("0123456789abcdef" * 4, "GIT_SYNC_REV"),
    ],
)
def test_a_commit_has_all_its_digits(branch: str, variable: str) -> None:
    job = interactive(codeSync=[{"name": "c", "repository": "R$(X)", "mountPath": "/m"}])
    job["spec"]["codeSync"][0]["branch"] = branch
    (step,) = steps(job, "hello")
    variables = {each["name"]: each["value"] for each in step["env"]}
    assert variables[variable] == branch
    # A kubelet makes one dollar of two, and looks for no variable.
    assert variables["GIT_SYNC_REPO"] == "R$$(X)"


@pytest.mark.parametrize(("limit", "attempts"), [(0, 4), (1, 1)])
def test_fetching_is_tried_again_where_a_kubelet_does_not(
    tmp_path: Path, limit: int, attempts: int
) -> None:
    """The pod of a command without retries is never restarted."""
    code = {"name": "c", "repository": "https://git.example.com/c", "mountPath": "/m"}
    job = one_shot(codeSync=[code], runPolicy={"backoffLimit": limit})
    pod = child(job, "Pod", f"{job['metadata']['name']}-master")["spec"]
    (step,) = pod["initContainers"]
    for name, text in (("sleep", 'echo "$1" >> "$HOME/slept"'), ("git", "exit 9")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        step["command"],
        env={
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            **{each["name"]: each["value"] for each in step["env"]},
            "HOME": str(tmp_path),
        },
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 9
    slept = tmp_path / "slept"
    delays = slept.read_text().split() if slept.exists() else []
    assert delays == ["5", "10", "20"][: attempts - 1]
    assert done.stderr.count("tried again in") == attempts - 1


# -- the script -----------------------------------------------------------------------------------


class Repository:
    """A repository with two commits, and what an init container makes of it."""

    def __init__(self, directory: Path) -> None:
        self.work, self.served = directory / "work", directory / "served/code.git"
        self.volume, self.home, self.secret = (
            directory / name for name in ("volume", "home", "secret")
        )
        for path in (self.work / "examples", self.volume, self.home):
            path.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")
        self.first = self.commit("one")
        self.git("tag", "v1")
        self.last = self.commit("two")
        self.git("clone", "--quiet", "--bare", ".", str(self.served))
        self.address = f"file://{self.served}"

    def git(self, *words: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        command = ("git", "-C", str(self.work), *identity, *words)
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, text: str) -> str:
        (self.work / "examples/file").write_text(text)
        self.git("add", ".")
        self.git("commit", "--quiet", f"--message={text}")
        return self.git("rev-parse", "HEAD")

    def fetch(
        self, given: dict[str, str] | None = None, **entry: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run the init container, with more variables if any."""
        code = {"name": "c", "repository": self.address, "mountPath": "/m", **entry}
        step, *_ = steps(interactive(codeSync=[code]), "hello")
        variables = {each["name"]: each["value"] for each in step["env"]}
        return subprocess.run(
            [*step["command"][:-2], str(self.volume), str(self.secret)],
            env={"PATH": os.environ["PATH"], **variables, **(given or {}), "HOME": str(self.home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def fails(self, **entry: Any) -> str:
        """Return what it says when it fails."""
        done = self.fetch(**entry)
        assert done.returncode != 0
        assert HINT not in done.stderr
        assert [path.name for path in self.home.iterdir()] == [], "a key, perhaps"
        return done.stderr.strip()

    def fetches(self, text: str, **entry: Any) -> None:
        """Check what is fetched, and that nothing else is left behind."""
        done = self.fetch(**entry)
        assert (done.returncode, done.stderr) == (0, "")
        assert (self.volume / "c/examples/file").read_text() == text
        assert [path.name for path in self.volume.iterdir()] == ["c"]
        assert [path.name for path in self.home.iterdir()] == []


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_the_default_branch_a_branch_and_a_tag(repository: Repository) -> None:
    repository.fetches("two")
    repository.fetches("one", branch="v1")
    repository.fetches("two", branch="main", timeoutSeconds=60, subPath="c/examples/")
    assert repository.fetch().stdout == f"{repository.address}: {repository.last}\n"


@pytest.mark.parametrize("protocol", ["2", "0"])
def test_a_commit(repository: Repository, protocol: str) -> None:
    """Also where the server gives tips of branches only."""
    given = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "protocol.version",
        "GIT_CONFIG_VALUE_0": protocol,
    }
    repository.fetches("one", branch=repository.first, given=given)
    repository.fetches("two", branch=repository.last, given=given)
    unknown = "0123456789" * 4
    said = repository.fails(branch=unknown, given=given)
    assert said.endswith(f"there is no commit {unknown} in {repository.address}")
    assert (repository.volume / "c/examples/file").read_text() == "two", "what there was"


def test_a_retry_begins_again(repository: Repository) -> None:
    for name in ("c", ".fetching"):
        (repository.volume / name).mkdir()
        (repository.volume / name / "half").touch()
    repository.fetches("two")
    assert not (repository.volume / "c/half").exists()


def test_what_git_says_is_said(repository: Repository) -> None:
    assert "Remote branch nope not found in upstream origin" in repository.fails(branch="nope")
    missing = repository.fails(repository=f"{repository.address}x")
    assert missing.endswith("fatal: Could not read from remote repository.")
    said = repository.fails(subPath="c/nope/more")
    wanted = f"subPath: there is no nope/more in {repository.address}; there are examples"
    assert said == wanted


def test_git_is_given_up_after_some_seconds(repository: Repository, tmp_path: Path) -> None:
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "git").write_text("#!/bin/sh\nexec sleep 50\n")
    (bin_ / "git").chmod(0o755)
    path = {"PATH": f"{bin_}:{os.environ['PATH']}"}
    done = repository.fetch(timeoutSeconds=1, given=path)
    assert done.returncode == 124
    assert done.stderr == f"{repository.address}: not fetched in 1 s (timeoutSeconds)\n"


def test_a_secret_without_a_key_and_one_with_something_else(repository: Repository) -> None:
    repository.secret.mkdir()
    assert "the Secret has no key ssh" in repository.fails()
    (repository.secret / "ssh").write_text("not a key")
    assert "the key ssh of the Secret is not a private key" in repository.fails()


def test_a_key_with_a_passphrase(repository: Repository) -> None:
    repository.secret.mkdir()
    words = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f")
    subprocess.run([*words, str(repository.secret / "ssh")], check=True)
    assert "or it has a passphrase: make one with" in repository.fails()


# -- https ----------------------------------------------------------------------------------------

TOKEN = "s3cret"
ALLOWED = "Basic " + base64.b64encode(f"me:{TOKEN}".encode()).decode()


class Files(SimpleHTTPRequestHandler):
    """Files for those who have the token, or from another server."""

    def do_GET(self) -> None:
        if self.path.startswith("/moved/"):
            self.send_response(302)
            self.send_header("Location", self.server.elsewhere + self.path[len("/moved") :])  # type: ignore[attr-defined]
            self.end_headers()
            return
        self.server.seen.append(self.headers.get("Authorization"))  # type: ignore[attr-defined]
        if self.headers.get("Authorization") == ALLOWED:
            super().do_GET()
            return
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="code"')
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@pytest.fixture
def servers(repository: Repository) -> Iterator[list[ThreadingHTTPServer]]:
    """Two web servers with the files of a repository; the first one redirects to the second."""
    repository.git("-C", str(repository.served), "update-server-info")
    found = []
    for _ in range(2):
        handler = partial(Files, directory=str(repository.served.parent))
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.seen = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        found.append(server)
    found[0].elsewhere = f"http://127.0.0.1:{found[1].server_port}"  # type: ignore[attr-defined]
    try:
        yield found
    finally:
        for server in found:
            server.shutdown()
            server.server_close()


def test_a_password_is_for_its_server_alone(
    repository: Repository, servers: list[ThreadingHTTPServer]
) -> None:
    first, second = servers
    address = f"http://127.0.0.1:{first.server_port}"
    said = repository.fails(repository=f"{address}/code.git")
    assert "could not read Username" in said
    repository.secret.mkdir()
    (repository.secret / "username").write_text("me\n")
    (repository.secret / "password").write_text(f"{TOKEN}\n")
    repository.fetches("two", repository=f"{address}/code.git")
    said = repository.fails(repository=f"{address}/moved/code.git")
    assert "could not read Username" in said
    assert set(second.seen) == {None}  # type: ignore[attr-defined]
    (repository.secret / "password").write_text(f"{TOKEN}-wrong")
    said = repository.fails(repository=f"{address}/code.git")
    assert "Authentication failed" in said
    assert TOKEN not in said
