"""The program `etcd` of a directory for envtest: it is healthy, and names a directory for objects.

Nothing of etcd's API is served. `kubeapiserver` asks for the directory, and keeps its objects
there; so they last as long as the data of a real etcd would.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from .flags import FlagError
from .programs import Program, main, until_asked_to_end, warn

if TYPE_CHECKING:
    from aiohttp import web

    from .flags import Flags

__all__ = ["ETCD", "STATE_PATH", "loopback_port"]

STATE_PATH = "/traincrew/state"
"""Where the directory is named, as ``{"directory": "..."}``."""

_ADDRESS = "127.0.0.1"
_LOCAL = {_ADDRESS, "localhost", "0.0.0.0"}  # noqa: S104 - a name for the loopback interface here
_HEALTH = {"health": "true", "reason": ""}


def loopback_port(flag: str, url: str) -> int:
    """Return the port of a URL of this machine.

    Raises:
        FlagError: It is none, or not plain HTTP.
    """
    try:
        parts = urlsplit(url)
        if parts.scheme == "http" and parts.hostname in _LOCAL and parts.port is not None:
            return parts.port
    except ValueError:
        pass
    raise FlagError(f"--{flag}: {url[:200]!r} is not of the form http://127.0.0.1:PORT")


def _absolute(path: str) -> Path:
    return Path(path).absolute()


async def _serve(flags: Flags) -> None:
    from aiohttp import web

    from traincrew.engine.serving.http import HttpServer
    from traincrew.local.directories import private_directory

    from .limits import LIMITS

    urls = flags.last("listen-client-urls", f"http://{_ADDRESS}:2379").split(",")
    ports = [loopback_port("listen-client-urls", url) for url in urls]
    directory = _absolute(flags.last("data-dir", "default.etcd")) / "traincrew"
    private_directory(directory)

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/health":
            return web.json_response(_HEALTH)
        if request.path == STATE_PATH:
            return web.json_response({"directory": str(directory)})
        message = "this etcd only keeps the objects of the kube-apiserver beside it\n"
        return web.Response(status=404, text=message)

    server = HttpServer(LIMITS, answer)
    try:
        for port in ports:
            bound = await server.listen(_ADDRESS, port)
            warn("etcd", f"serving {json.dumps(f'http://{_ADDRESS}:{bound}')}")
        await until_asked_to_end()
    finally:
        await server.close()


ETCD = Program(
    "etcd",
    "Keeps the objects of the kube-apiserver beside it, for tests.",
    {
        "data-dir": "directory of the data (default.etcd)",
        "listen-client-urls": "http://127.0.0.1:PORT",
        "advertise-client-urls": None,
        "auto-compaction-mode": None,
        "auto-compaction-retention": None,
        "election-timeout": None,
        "heartbeat-interval": None,
        "initial-advertise-peer-urls": None,
        "initial-cluster": None,
        "initial-cluster-state": None,
        "initial-cluster-token": None,
        "listen-metrics-urls": None,
        "listen-peer-urls": None,
        "log-level": None,
        "log-outputs": None,
        "logger": None,
        "max-request-bytes": None,
        "name": None,
        "quota-backend-bytes": None,
        "snapshot-count": None,
        "wal-dir": None,
    },
    {"unsafe-no-fsync": None, "force-new-cluster": None},
    _serve,
)

if __name__ == "__main__":
    sys.exit(main(ETCD))
