"""Memory of the API server with 200 watchers that never read, and after they have disconnected.

Half of them start with everything that is there, half from now on. Reference in the same run: the
same writes to a server that nobody watches.
"""

import http.client
import json
import socket
import time

from benchmarks._usage import peak_mebibytes, resident_mebibytes
from benchmarks.apiserver import AUTHORIZATION, REAL, Server

WATCHERS = 200
OBJECTS = 100
UPDATES = 600
SIZE = 50_000
GOAL_MEBIBYTES = 1000
GOAL_SECONDS = 30
PATH = "/api/v1/namespaces/default/configmaps"


def main() -> None:
    unwatched, before, _ = measure(0)
    print(f"no watchers: {unwatched:.0f} MiB at most")
    peak, _, seconds = measure(WATCHERS, before)
    print(f"{WATCHERS} watchers that never read: {peak:.0f} MiB at most (goal {GOAL_MEBIBYTES})")
    returned = "never" if seconds is None else f"after {seconds:.0f} s"
    print(f"less than 1.5 times the {before:.0f} MiB of the reference: {returned}", end=" ")
    print(f"(goal {GOAL_SECONDS} s)")


def measure(watchers: int, reference: float | None = None) -> tuple[float, float, float | None]:
    """Return the peak with this many watchers, the reference, and the seconds to return to it.

    The reference is what is resident after the writes of this run, unless one is given.
    """
    server = Server(REAL)
    try:
        pid = server.process.pid
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        for number in range(OBJECTS):
            write(connection, number, 0)
        sockets = [open_watch(server.port, number) for number in range(watchers)]
        for number in range(UPDATES):
            write(connection, number % OBJECTS, number + 1)
        peak = peak_mebibytes(pid)
        if reference is None:
            reference = resident_mebibytes(pid)
        for each in sockets:
            each.close()
        closed = time.monotonic()
        while (seconds := time.monotonic() - closed) < 2 * GOAL_SECONDS:
            if resident_mebibytes(pid) < 1.5 * reference:
                return peak, reference, seconds
            time.sleep(0.2)
        return peak, reference, None
    finally:
        server.process.kill()
        server.process.wait()


def write(connection: http.client.HTTPConnection, number: int, version: int) -> None:
    """Create or replace an object."""
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"map-{number}"},
        "data": {"key": f"{version} " + "x" * SIZE},
    }
    name, _, value = AUTHORIZATION.strip().partition(": ")
    headers = {name: value, "Content-Type": "application/json"}
    method, path = ("POST", PATH) if not version else ("PUT", f"{PATH}/map-{number}")
    connection.request(method, path, json.dumps(body), headers)
    response = connection.getresponse()
    response.read()
    assert response.status in {200, 201}, response.status


def open_watch(port: int, number: int) -> socket.socket:
    """Return a watch whose response is never read."""
    client = socket.socket()
    # Buffers of the kernel are not the server's memory.
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", port))
    query = "?watch=1" if number % 2 else "?watch=1&resourceVersion=1"
    client.sendall(f"GET {PATH}{query} HTTP/1.1\r\nHost: 127.0.0.1\r\n{AUTHORIZATION}\r\n".encode())
    head = client.recv(64)
    assert b" 200 " in head, head
    return client


if __name__ == "__main__":
    main()
