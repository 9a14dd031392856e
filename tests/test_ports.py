"""Every listening port is in the list of docs/design/security.md, with its limits."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

from traincrew.engine.serving.limits import Limits

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
PAGE = ROOT / "docs" / "design" / "security.md"
LISTENS = {
    "HTTPServer",
    "TCPSite",
    "ThreadingHTTPServer",
    "UnixSite",
    "create_datagram_endpoint",
    "create_server",
    "create_unix_server",
    "run_app",
    "start_server",
    "start_unix_server",
}
ELSEWHERE = {
    # Listens in the process of a container, which imports no event loop.
    "traincrew/local/node/sandbox/attach.py": "attach",
    # Never accepts a connection.
    "traincrew/local/node/network/addresses.py": "network",
    # These look for a port, and close it at once.
    "traincrew/cli/cluster/embedded.py": "",
    "traincrew/local/node/machine/loopback.py": "",
}
"""Modules outside of `engine.serving` that listen, and what the list calls their ports."""
TOGETHER = {"apiserver", "dns", "dns datagrams", "page", "progress", "services"}
"""Ports that one process may open: that of `traincrew run --ui`."""


def is_listening(call: ast.Call) -> bool:
    """Return whether a call opens a port: by name, or `listen` of a socket, which has a number."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if isinstance(call.func, ast.Name):
        name = call.func.id
    backlog = len(call.args) == 1 and isinstance(call.args[0], ast.Constant)
    return name in LISTENS or (name == "listen" and (backlog or _is_socket(call)))


def _is_socket(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value).endswith("sock")


def modules() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py") if "/static/" not in str(path))


def all_limits() -> dict[str, Limits]:
    """Return the limits of all ports, found in the code."""
    found = {}
    for path in modules():
        if re.search(r"^\w*LIMITS = Limits\(", path.read_text(), re.MULTILINE):
            name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
            values = vars(importlib.import_module(name)).values()
            for each in values:
                if isinstance(each, Limits):
                    found[each.port] = each
    return found


def shown(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return "1 day" if seconds == 86400 else f"{seconds:g} s"


def size(number: int) -> str:
    if number >= 1 << 20 and number % (1 << 20) == 0:
        return f"{number >> 20} MiB"
    if number >= 1024 and number % 1024 == 0:
        return f"{number >> 10} KiB"
    return f"{number} bytes" if number else "none"


def row(limits: Limits) -> list[str]:
    """Return the columns of the list that the code decides."""
    return [
        f"{limits.connections:,}",
        f"1/{round(1 / limits.share)}",
        shown(limits.head),
        shown(limits.answer),
        shown(limits.idle),
        size(limits.body),
    ]


def listed() -> dict[str, list[str]]:
    """Return the list of the page: port -> the columns after that of who listens."""
    section = PAGE.read_text().partition("\n## Ports\n")[2].partition("\n## ")[0]
    rows = [
        line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")
    ]
    return {cells[0].strip("`"): [cell.strip() for cell in cells[2:]] for cells in rows}


def test_only_one_package_opens_ports() -> None:
    found = {
        str(path.relative_to(SOURCE))
        for path in modules()
        if "engine/serving/" not in str(path)
        and any(name in (text := path.read_text()) for name in {*LISTENS, "listen"})
        and any(
            isinstance(node, ast.Call) and is_listening(node) for node in ast.walk(ast.parse(text))
        )
    }
    assert found == set(ELSEWHERE), "listen by traincrew.engine.serving, with Limits"


def test_every_port_is_listed_with_its_limits() -> None:
    known = {name: row(limits) for name, limits in all_limits().items()}
    others = {name for name in ELSEWHERE.values() if name}
    assert listed().keys() == known.keys() | others
    for name, columns in known.items():
        assert listed()[name] == columns, f"security.md, ports: `{name}`"


def test_crowds_at_all_ports_leave_descriptors() -> None:
    known = all_limits()
    assert known.keys() >= TOGETHER
    assert sum(known[name].share for name in TOGETHER) < 0.8


@pytest.mark.parametrize(("available", "most"), [(1024, 64), (1 << 20, 128), (-1, 128), (16, 2)])
def test_connections_are_a_share_of_the_descriptors(
    monkeypatch: pytest.MonkeyPatch, available: int, most: int
) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (available, available))
    assert Limits("a", connections=128, share=1 / 16).most == most
    assert Limits("a", connections=64, share=1 / 8, descriptors=2).most <= most
