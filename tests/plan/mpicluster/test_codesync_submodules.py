"""``spec.codeSync``: submodules, and the way through a proxy, with a real git."""

from __future__ import annotations

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from plan.mpicluster.manifests import interactive
from plan.mpicluster.test_codesync import TOKEN, Repository, repository, servers, steps

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["repository", "servers"]

MAIN = "c/examples/file"
BELOW = "c/parts/library/examples/file"


# -- submodules -----------------------------------------------------------------------------------


@pytest.fixture
def library(repository: Repository, tmp_path: Path) -> Path:
    """The repository of a submodule, of which a commit before the last one is used.

    It is named relative to the repository that uses it, and is served beside it.
    """
    other = Repository(tmp_path / "other")
    served = repository.served.with_name("library.git")
    other.git("clone", "--quiet", "--bare", ".", str(served))
    other.git("-C", str(served), "update-server-info")
    allowed = ("-c", "protocol.file.allow=always")
    where = ("-C", str(repository.work))
    repository.git("remote", "add", "origin", str(repository.served))
    repository.git(
        *allowed, *where, "submodule", "--quiet", "add", "../library.git", "parts/library"
    )
    repository.git("-C", str(repository.work / "parts/library"), "checkout", "--quiet", other.first)
    repository.commit("three")
    repository.git("push", "--quiet", "origin", "main")
    repository.git("-C", str(repository.served), "update-server-info")
    return served


@pytest.mark.parametrize("protocol", ["2", "0"])
@pytest.mark.usefixtures("library")
def test_submodules_are_fetched_if_they_are_asked_for(
    repository: Repository, protocol: str
) -> None:
    """Also where the server gives tips of branches only."""
    given = {
        "GIT_ALLOW_PROTOCOL": "file",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "protocol.version",
        "GIT_CONFIG_VALUE_0": protocol,
    }
    repository.fetches("three", given=given)
    assert not (repository.volume / BELOW).exists()
    repository.fetches("three", given=given, submodules=True, timeoutSeconds=60)
    assert (repository.volume / BELOW).read_text() == "one"
    repository.fetches(
        "three", given=given, submodules=True, branch=repository.git("rev-parse", "main")
    )
    assert (repository.volume / BELOW).read_text() == "one"


@pytest.mark.usefixtures("library")
def test_submodules_of_code_that_is_kept_up_to_date(repository: Repository) -> None:
    given = {"GIT_ALLOW_PROTOCOL": "file"}
    done = repository.fetch(given=given, submodules=True, updateSeconds=30)
    assert (done.returncode, done.stderr) == (0, "")
    assert (repository.volume / MAIN).read_text() == "three"
    assert (repository.volume / BELOW).read_text() == "one"


def test_a_repository_without_submodules(repository: Repository) -> None:
    repository.fetches("two", submodules=True)


def test_a_submodule_that_cannot_be_fetched_leaves_nothing(
    repository: Repository, library: Path
) -> None:
    library.rename(library.with_name("gone.git"))
    said = repository.fails(submodules=True, given={"GIT_ALLOW_PROTOCOL": "file"})
    assert "library.git' into submodule path" in said
    assert not (repository.volume / "c").exists()


@pytest.mark.usefixtures("library")
def test_submodules_of_the_same_server_are_fetched_with_its_password(
    repository: Repository, servers: list[ThreadingHTTPServer]
) -> None:
    address = f"http://127.0.0.1:{servers[0].server_port}/code.git"
    repository.secret.mkdir()
    (repository.secret / "username").write_text("me")
    (repository.secret / "password").write_text(TOKEN)
    repository.fetches("three", repository=address, submodules=True)
    assert (repository.volume / BELOW).read_text() == "one"


# -- proxies --------------------------------------------------------------------------------------


class Proxy(SimpleHTTPRequestHandler):
    """Has the files of every server."""

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        self.server.seen.append(address.netloc)  # type: ignore[attr-defined]
        self.path = address.path
        super().do_GET()

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@pytest.fixture
def proxy(repository: Repository) -> Iterator[ThreadingHTTPServer]:
    repository.git("-C", str(repository.served), "update-server-info")
    handler = partial(Proxy, directory=str(repository.served.parent))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.seen = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def with_variables(*given: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the variables of an init container for a container with some."""
    code = {"name": "c", "repository": "http://git.example.com/code.git", "mountPath": "/m"}
    job = interactive(codeSync=[code])
    job["spec"]["workers"]["template"]["spec"]["containers"][0]["env"] = list(given)
    (step,) = steps(job, "hello")
    found: list[dict[str, Any]] = step["env"]
    return found


def test_the_proxy_is_that_of_the_container() -> None:
    """Its other variables are not for git."""
    secret = {"secretKeyRef": {"name": "proxy", "key": "url"}}
    proxies: list[dict[str, Any]] = [
        {"name": "HTTPS_PROXY", "valueFrom": secret},
        {"name": "no_proxy", "value": ".svc,10.0.0.0/8"},
        {"name": "ALL_PROXY", "value": "socks5://proxy:1080"},
    ]
    others = [{"name": "GIT_SSH", "value": "x"}, {"name": "PROXY", "value": "y"}]
    found = with_variables(*proxies, *others)
    assert found[: -len(proxies)] == with_variables()
    assert found[-len(proxies) :] == proxies


def test_code_is_fetched_through_the_proxy(
    repository: Repository, proxy: ThreadingHTTPServer
) -> None:
    address = f"http://127.0.0.1:{proxy.server_port}"
    found = with_variables({"name": "http_proxy", "value": address})
    given = {each["name"]: each["value"] for each in found}
    repository.fetches("two", repository=given["GIT_SYNC_REPO"], given=given)
    assert set(proxy.seen) == {"git.example.com"}  # type: ignore[attr-defined]
