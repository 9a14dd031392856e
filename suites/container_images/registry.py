"""Docker's registry on this machine, and images for it."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from base64 import b64encode
from contextlib import contextmanager
from typing import TYPE_CHECKING

from suites.git_servers import LOOPBACK
from suites.image_registry import PASSWORD, PROGRAM, USER, password_file

from local.images.oci.packing import Layer, config_of, digest, manifest_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

__all__ = ["BUILDAH", "LOGIN", "PASSWORD", "PROGRAM", "USER", "Server", "serving"]

BUILDAH = shutil.which("buildah", path="/usr/bin:/usr/local/bin")
LOGIN = b64encode(f"{USER}:{PASSWORD}".encode()).decode()
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


class Server:
    """A running registry."""

    def __init__(self, host: str) -> None:
        self.host = host

    def push(self, name: str, tag: str, layers: Sequence[Layer]) -> str:
        """Store an image; return the digest of its manifest."""
        config = config_of(*layers)
        for blob in (config, *(layer.blob for layer in layers)):
            location = self._send("POST", f"/v2/{name}/blobs/uploads/", b"")
            joint = "&" if "?" in location else "?"
            self._send("PUT", f"{location}{joint}digest={digest(blob)}", blob)
        manifest = manifest_of(config, *layers)
        self._send("PUT", f"/v2/{name}/manifests/{tag}", manifest, MANIFEST)
        return digest(manifest)

    def _send(
        self, method: str, path: str, body: bytes, media_type: str = "application/octet-stream"
    ) -> str:
        url = path if path.startswith("http") else f"http://{self.host}{path}"
        headers = {"Content-Type": media_type, "Authorization": f"Basic {LOGIN}"}
        request = urllib.request.Request(url, data=body, method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return str(answer.headers.get("Location", ""))


@contextmanager
def serving(directory: Path, *, closed: bool = False) -> Iterator[Server]:
    """Serve a registry on loopback.

    Args:
        directory: For its configuration and storage; what is stored in it is served again.
        closed: Whether it wants a user and a password.
    """
    assert PROGRAM is not None
    with socket.create_server((LOOPBACK, 0)) as free:
        host = f"{LOOPBACK}:{free.getsockname()[1]}"
    configuration = {
        "version": 0.1,
        "log": {"level": "error", "accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(directory / "storage")}},
        "http": {"addr": host},
    }
    if closed:
        configuration["auth"] = password_file(directory)
    (directory / "registry.json").write_text(json.dumps(configuration))
    with (directory / "registry.log").open("wb") as output:
        command = [PROGRAM, "serve", str(directory / "registry.json")]
        server = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            _wait(server, host)
            yield Server(host)
        finally:
            server.terminate()
            server.wait()


def _wait(server: subprocess.Popen[bytes], host: str) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(f"http://{host}/v2/", timeout=5):
                return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError("the registry does not answer; see registry.log")
