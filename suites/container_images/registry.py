"""Docker's registry on this machine, and images for it."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shutil
import socket
import subprocess
import tarfile
import time
import urllib.error
import urllib.request
from base64 import b64encode
from contextlib import contextmanager
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from suites.git_servers import LOOPBACK
from suites.image_registry import PASSWORD, PROGRAM, USER, password_file

from traincrew.local.images.oci.platforms import platform_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

__all__ = ["BUILDAH", "LOGIN", "PASSWORD", "PROGRAM", "USER", "Layer", "Server", "serving"]

BUILDAH = shutil.which("buildah", path="/usr/bin:/usr/local/bin")
LOGIN = b64encode(f"{USER}:{PASSWORD}".encode()).decode()
OCI = "application/vnd.oci.image."


def digest(data: bytes) -> str:
    """Return the digest of a blob."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Layer:
    """An ordinary layer: some files, and the directories they are in.

    Args:
        files: Contents by path.
        mode: Of all files.

    Attributes:
        diff_id: Digest of the archive.
        size: Bytes of the archive.
        blob: What a registry has of it.
    """

    def __init__(self, files: Mapping[str, bytes], mode: int = 0o644) -> None:
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for path in sorted({str(one) for name in files for one in PurePath(name).parents}):
                tar.addfile(_header(path, tarfile.DIRTYPE, 0o755))
            for name, content in files.items():
                header = _header(name, tarfile.REGTYPE, mode)
                header.size = len(content)
                tar.addfile(header, io.BytesIO(content))
        data = archive.getbuffer()
        self.diff_id = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self.size = len(data)
        self.blob = gzip.compress(data, 4, mtime=0)


def _header(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.type, header.mode = kind, mode
    return header


class Server:
    """A running registry."""

    def __init__(self, host: str) -> None:
        self.host = host

    def push(self, name: str, tag: str, layers: Sequence[Layer]) -> str:
        """Store an image; return the digest of its manifest."""
        config = json.dumps(
            {
                "os": "linux",
                "architecture": platform_of(os.uname().machine).architecture,
                "config": {"Cmd": ["true"]},
                "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
            }
        ).encode()
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{OCI}manifest.v1+json",
            "config": self._upload(name, f"{OCI}config.v1+json", config),
            "layers": [self._upload(name, f"{OCI}layer.v1.tar+gzip", one.blob) for one in layers],
        }
        data = json.dumps(manifest).encode()
        self._send("PUT", f"/v2/{name}/manifests/{tag}", data, f"{OCI}manifest.v1+json")
        return digest(data)

    def _upload(self, name: str, media_type: str, blob: bytes) -> dict[str, Any]:
        location = self._send("POST", f"/v2/{name}/blobs/uploads/", b"")
        joint = "&" if "?" in location else "?"
        self._send("PUT", f"{location}{joint}digest={digest(blob)}", blob)
        return {"mediaType": media_type, "digest": digest(blob), "size": len(blob)}

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
