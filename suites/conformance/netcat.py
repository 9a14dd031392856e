"""The `nc` of the images: OpenBSD's, for the options that upstream's tests use.

A stand-alone script with the standard library only:
`nc [-v] [-z] [-t|-u] [-w SECONDS] HOST PORT`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import socket
import sys

_CHUNK = 65536


def main() -> int:
    """Connect, send standard input, print what is received; return 1 without a connection."""
    parser = argparse.ArgumentParser(prog="nc")
    parser.add_argument("-v", action="store_true", help="report whether the connection was made")
    parser.add_argument("-z", action="store_true", help="only connect")
    parser.add_argument("-t", action="store_true", help="TCP, as it is anyway")
    parser.add_argument("-u", action="store_true", help="UDP")
    parser.add_argument("-w", type=float, default=None, help="seconds of silence to give up after")
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    options = parser.parse_args()
    place = f"{options.host} {options.port} port [{'udp' if options.u else 'tcp'}/*]"
    try:
        connection = _connect(options.host, options.port, options.w, udp=options.u)
    except OSError as error:
        sys.stderr.write(f"nc: connect to {place} failed: {error.strerror or error}\n")
        return 1
    if options.v:
        sys.stderr.write(f"Connection to {place} succeeded!\n")
    with connection:
        if not options.z:
            _talk(connection, options.w, udp=options.u)
    return 0


def _connect(host: str, port: int, seconds: float | None, *, udp: bool) -> socket.socket:
    if not udp:
        return socket.create_connection((host, port), seconds)
    connection = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    connection.connect((host, port))
    return connection


def _talk(connection: socket.socket, seconds: float | None, *, udp: bool) -> None:
    sources = [0, connection.fileno()]
    while connection.fileno() in sources:
        ready, _, _ = select.select(sources, [], [], seconds)
        if not ready:
            return
        if 0 in ready:
            data = os.read(0, _CHUNK)
            if data:
                connection.sendall(data)
            else:
                sources.remove(0)
                if not udp:
                    with contextlib.suppress(OSError):
                        connection.shutdown(socket.SHUT_WR)
        if connection.fileno() in ready:
            try:
                data = connection.recv(_CHUNK)
            except OSError:
                return
            if not data:
                return
            os.write(1, data)


if __name__ == "__main__":
    sys.exit(main())
