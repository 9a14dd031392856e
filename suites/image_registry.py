"""A private image registry on every node of a real cluster, on its loopback address.

containerd speaks plain HTTP with registries on loopback, so that none needs a certificate.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from hack.cluster import binaries
from hack.cluster.network import inside
from suites.git_servers import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hack.cluster import RealCluster
    from hack.cluster.nodes import Node

PROGRAM = shutil.which("docker-registry", path="/usr/bin:/usr/local/bin")
PORT = 5000
HOST = f"{LOOPBACK}:{PORT}"
USER, PASSWORD = "reader", "open sesame"
_BCRYPT = "$2b$05$abcdefghijklmnopqrstuupx2xBUC4954936wVIjyyPHmUBFu0wCW"
"""Of the password: the registry takes no other hash."""


def pull_secret(name: str) -> dict[str, Any]:
    """Return a Secret for `imagePullSecrets`."""
    login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name},
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": json.dumps({"auths": {HOST: {"auth": login}}})},
    }


def password_file(directory: Path) -> dict[str, Any]:
    """Return the ``auth`` of a registry that `USER` may read and write; write its file."""
    (directory / "htpasswd").write_text(f"{USER}:{_BCRYPT}\n")
    return {"htpasswd": {"realm": "test", "path": str(directory / "htpasswd")}}


@contextmanager
def serving(cluster: RealCluster, directory: Path, image: str, name: str) -> Iterator[str]:
    """Serve an image that the nodes have; yield its full name, which only a password opens.

    Args:
        cluster: The cluster; every node has a server of its own, of the same storage.
        directory: Of configuration and storage.
        image: An image that the cluster has.
        name: Its name in the registry.
    """
    assert PROGRAM is not None
    configuration = {
        "version": 0.1,
        "log": {"level": "error"},
        "storage": {"filesystem": {"rootdirectory": str(directory / "storage")}},
        "http": {"addr": HOST},
        "auth": password_file(directory),
    }
    (directory / "registry.json").write_text(json.dumps(configuration))
    full = f"{HOST}/{name}"
    with ExitStack() as servers:
        for node in cluster.nodes:
            servers.enter_context(_server(node, directory))
        _push(cluster.nodes[0], image, full)
        yield full
        for node in cluster.nodes:
            _ctr(node, "images", "rm", "--sync", full)


@contextmanager
def _server(node: Node, directory: Path) -> Iterator[None]:
    command = [str(PROGRAM), "serve", str(directory / "registry.json")]
    log = directory / f"{node.name}.log"
    with log.open("wb") as output:
        server = subprocess.Popen(_inside(node, command), stdout=output, stderr=output)
    try:
        yield
    finally:
        server.terminate()
        server.wait()


def _push(node: Node, image: str, name: str) -> None:
    _ctr(node, "images", "tag", image, name)
    _ctr(node, "images", "push", "--plain-http", "--user", f"{USER}:{PASSWORD}", name)
    _ctr(node, "images", "rm", "--sync", name)


def _ctr(node: Node, *words: str) -> None:
    command = [str(binaries.path("ctr")), "-a", str(node.socket), "-n", "k8s.io", *words]
    done = subprocess.run(
        _inside(node, command), check=False, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, f"{words}: {done.stderr}"


def _inside(node: Node, command: list[str]) -> list[str]:
    return inside(node.network.node(node.index), command)
