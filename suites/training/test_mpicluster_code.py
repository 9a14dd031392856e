"""Code of MPIClusters from git servers on this machine: public ones, and private ones by ssh."""

from __future__ import annotations

import json
import subprocess
from typing import IO, TYPE_CHECKING, Any

import pytest
from suites import git_servers
from suites.openmpi_code import UPDATE_SECONDS, by_all, said, started, updated
from suites.openmpi_user import HOSTFILE, lines, with_code

from . import mpiclusters
from .conftest import pull

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = mpiclusters.NEEDS_SSHD
NON_ROOT = {
    "runAsNonRoot": True,
    "runAsUser": 1_000_670_000,
    "fsGroup": 1_000_670_000,
    "seccompProfile": {"type": "RuntimeDefault"},
}
RESTRICTED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


class User(mpiclusters.User):
    """A user with MPIClusters."""

    def until_message(self, document: dict[str, Any], *words: str) -> str:
        """Create a cluster; return its message when it has these words, and delete it."""
        name = document["metadata"]["name"]
        self.create(document)

        def message() -> str:
            found: str = self.mpi_cluster(name).get("status", {}).get("message", "")
            return found if all(word in found for word in words) else ""

        found = self.until(f"the message of {name} has {words}", message)
        self.gone(name)
        return found


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[User]:
    """A user with a running cluster; no private key is in its log."""
    pull(cache, mpiclusters.IMAGE)
    with mpiclusters.keeping_secrets(User(tmp_path_factory.mktemp("user"), cache)) as user:
        yield user


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> git_servers.Repository:
    return git_servers.Repository(tmp_path_factory.mktemp("repository"))


@pytest.fixture(scope="module")
def public(repository: git_servers.Repository) -> Iterator[str]:
    """The address of a public repository."""
    with git_servers.public(repository) as address:
        yield address


@pytest.fixture(scope="module")
def private(
    repository: git_servers.Repository, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[git_servers.Private]:
    """A private repository."""
    server = git_servers.Private(repository, tmp_path_factory.mktemp("private"))
    with server.serving():
        yield server


def test_a_branch_is_in_every_pod(user: User, public: str) -> None:
    found = user.says(with_code("code", public, workers=2, branch="main", timeoutSeconds=60))
    assert found == [f"code-{host} says hello" for host in ("master", "worker-0", "worker-1")]


def test_a_commit(user: User, public: str, repository: git_servers.Repository) -> None:
    found = user.says(with_code("commit", public, branch=repository.first))
    assert found == ["commit-master says hello first"]


def test_what_is_not_there(user: User, public: str) -> None:
    said = user.until_message(
        with_code("branch", public, branch="nope"),
        "container mine-fetch exited with code 128",
        "Remote branch nope not found",
    )
    assert "master" in said
    user.until_message(
        with_code("path", public, workers=1, subPath="mine/nope"),
        "container mine-fetch exited with code 1",
        "there is no nope in git://",
        "there are examples",
    )


def test_code_that_cannot_be_fetched_without_retries_of_the_command(
    user: User, public: str
) -> None:
    """Fetching is tried again all the same, but not for ever."""
    user.create(with_code("once", public, branch="nope", retries=0))
    condition = user.until_condition("once", "Failed")
    assert condition["reason"] == "BackoffLimitExceeded"
    assert "container mine-fetch exited with code 128" in condition["message"]
    assert "Remote branch nope not found" in condition["message"]
    user.gone("once")


def test_a_private_repository(user: User, private: git_servers.Private) -> None:
    """Its hosts are checked only if they are in the Secret."""
    secret = user.secret("key", ssh=private.key)
    document = with_code("key", private.address, secretName=secret)
    assert user.says(document) == ["key-master says hello"]
    secret = user.secret("known", ssh=private.key, known_hosts=private.known_hosts)
    document = with_code("known", private.address, secretName=secret, workers=1)
    assert user.says(document) == ["known-master says hello", "known-worker-0 says hello"]


@pytest.fixture
def restricted(user: User) -> Iterator[None]:
    """The restricted Pod Security Standard is enforced."""
    level = "pod-security.kubernetes.io/enforce"
    user.kubectl("label", "namespace", "default", f"{level}=restricted")
    yield
    user.kubectl("label", "namespace", "default", f"{level}-")


@pytest.mark.usefixtures("restricted")
def test_a_user_without_a_name(user: User, private: git_servers.Private) -> None:
    secret = user.secret("non-root", ssh=private.key)
    document = with_code("non-root", private.address, secretName=secret)
    for role in ("master", "workers"):
        pod = document["spec"][role]["template"]["spec"]
        pod["securityContext"] = NON_ROOT
        pod["containers"][0]["securityContext"] = RESTRICTED
    assert user.says(document) == ["non-root-master says hello"]


def test_a_wrong_key_and_a_wrong_host(user: User, private: git_servers.Private) -> None:
    secret = user.secret("wrong", ssh=private.other_key)
    user.until_message(
        with_code("wrong", private.address, secretName=secret),
        "container mine-fetch exited with code 128",
        "Permission denied (publickey)",
        "Could not read from remote repository",
    )
    other_host = private.known_hosts.with_name("other_hosts")
    other_host.write_text(private.known(private.other_key.with_suffix(".pub")))
    secret = user.secret("other", ssh=private.key, known_hosts=other_host)
    said = user.until_message(
        with_code("other", private.address, secretName=secret), "Host key verification failed"
    )
    assert "PRIVATE KEY" not in said


def test_a_password_in_an_address_is_refused(user: User) -> None:
    document = with_code("token", "https://me:s3cret@git.example.com/code")
    said = user.kubectl("create", "-f", "-", given=json.dumps(document), code=1)
    assert "put it into a Secret (keys username and password) that secretName names" in said
    assert "s3cret" not in user.log()


# -- updates ---------------------------------------------------------------------------------------

WITHIN = UPDATE_SECONDS + 20
"""Seconds within which all pods of a busy machine have a new commit."""
UNTIL_CHANGED = """\
echo begins
until [ -e /code/go.sh ]; do sleep 0.2; done
echo $(hostname) ends as one
"""
"""A program that its own directory has to be kept for, while the code is replaced."""


def unreachable(user: User, name: str) -> set[str]:
    """Return the pods with an event that tells why their code is not updated."""
    return {
        event["involvedObject"]["name"]
        for event in user.get("events")["items"]
        if event["involvedObject"]["name"].startswith(f"{name}-")
        and event["reason"] == "Unhealthy"
        and "not updated, tried again every 5 s:\nfatal: unable to connect" in event["message"]
    }


def until_line(output: IO[str], line: str) -> None:
    """Read until a line; what mpiexec says itself may be between."""
    assert any(found.strip() == line for found in output), f"{line} was never printed"


def test_running_pods_get_new_commits(user: User, tmp_path: Path) -> None:
    """A command that runs is not disturbed, and a server may be gone for a while."""
    repository, port, name = git_servers.Repository(tmp_path), git_servers.free_port(), "fresh"
    repository.change(wait=UNTIL_CHANGED)
    with git_servers.public(repository, port=port) as address:
        user.create(updated(name, address, subPath="mine/examples"))
        user.until_condition(name, "Running")
        assert said(user, name) == by_all(name, "says hello")
        before = started(user, name)
        words = ("mpiexec", "--allow-run-as-root", "--hostfile", HOSTFILE, "-n", "3")
        master = ("kubectl", "exec", f"{name}-master", "-c", "mpi-master", "--")
        with subprocess.Popen(
            [*master, *words, "--map-by", "ppr:1:node", "sh", "/code/wait.sh"],
            env=user.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as running:  # fmt: skip
            assert running.stdout is not None
            for _ in range(3):
                until_line(running.stdout, "begins")
            commit = repository.change(
                say="echo $(hostname) says $1 two\n", wait="echo disturbed\n", go=""
            )
            output, _ = running.communicate(timeout=WITHIN)
        assert (running.returncode, lines(output)) == (0, by_all(name, "ends as one"))
        assert said(user, name) == by_all(name, "says hello two")
        version = user.kubectl(*master[1:], "readlink", "/code/..data")
        assert version.strip() == f"..code/{commit}/examples"
    assert said(user, name) == by_all(name, "says hello two")
    user.until("events tell that the server is gone", lambda: unreachable(user, name) == {*before})
    repository.change(say="echo $(hostname) says $1 three\n")
    with git_servers.public(repository, port=port):
        user.until(
            "all pods have the third commit",
            lambda: said(user, name) == by_all(name, "says hello three"),
            WITHIN,
        )
    assert started(user, name) == before, "all are ready, and none was restarted"
    log = user.kubectl("logs", f"{name}-worker-0", "-c", "mine-update")
    assert log.count("not updated") == 1
    assert f"{address}: reached again" in log
    user.gone(name)


def test_a_command_with_updates_ends_by_itself(user: User, public: str) -> None:
    """The containers that look for new commits end with the others."""
    document = with_code("ends", public, workers=1, retries=0, updateSeconds=3600)
    assert user.says(document) == ["ends-master says hello", "ends-worker-0 says hello"]


@pytest.mark.usefixtures("restricted")
def test_updates_by_a_user_without_a_name(
    user: User, private: git_servers.Private, repository: git_servers.Repository
) -> None:
    secret = user.secret("updates", ssh=private.key, known_hosts=private.known_hosts)
    document = with_code("updates", private.address, secretName=secret, updateSeconds=5)
    for role in ("master", "workers"):
        pod = document["spec"][role]["template"]["spec"]
        pod["securityContext"] = NON_ROOT
        pod["containers"][0]["securityContext"] = RESTRICTED
    command = "until [ -e /code/later.sh ]; do sleep 0.2; done; sh /code/later.sh"
    document["spec"]["master"]["oneShot"]["command"] = command
    user.create(document)
    user.until_condition("updates", "Running")
    repository.change(later="echo later\n")
    user.until_condition("updates", "Succeeded")
    assert lines(user.kubectl("logs", "updates-master", "-c", "mpi-master")) == ["later"]
    log = user.kubectl("logs", "updates-master", "-c", "mine-update")
    assert "not updated" not in log
    assert "PRIVATE KEY" not in log
    user.gone("updates")
