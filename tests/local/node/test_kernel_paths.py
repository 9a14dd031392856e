"""What containers reach of the kernel: `/proc`, `/sys`, `/dev` and files by their inodes."""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from typing import TYPE_CHECKING, Any

import pytest

from local.node.support import CAPABILITIES, needs_own_proc, node_world, shell
from traincrew.local.node.sandbox import syscalls

if TYPE_CHECKING:
    from pathlib import Path

ROOT = os.geteuid() == 0
pytestmark = pytest.mark.skipif(not CAPABILITIES.namespaces, reason=CAPABILITIES.reason)
needs_root = pytest.mark.skipif(not ROOT, reason="only of a cluster that root runs")
WRITABLE = """
find /proc/sys /proc/irq /proc/bus /proc/fs /proc/sysrq-trigger -type f -writable 2>/dev/null
(: >> /proc/sys/kernel/core_pattern) 2>/dev/null && echo core_pattern
"""
READABLE = """
for file in /proc/kcore /proc/keys /proc/timer_list /proc/latency_stats /proc/sched_debug \
    /proc/interrupts; do
    if [ -n "$(head -c 1 $file 2>/dev/null | tr '\\0' x)" ]; then echo "READABLE $file"; fi
done
for directory in /proc/acpi /proc/scsi /proc/asound /sys/firmware /sys/devices/virtual/powercap; do
    if [ -n "$(ls -A $directory 2>/dev/null)" ]; then echo "READABLE $directory"; fi
done
"""
OPEN = """
import ctypes, os, sys
handle = bytes.fromhex(sys.argv[1])
mount = os.open("/dev/termination-log", os.O_RDONLY)
libc = ctypes.CDLL(None, use_errno=True)
descriptor = libc.open_by_handle_at(mount, handle, os.O_RDONLY)
if descriptor < 0:
    print(os.strerror(ctypes.get_errno()))
else:
    print(os.read(descriptor, 100).decode())
"""


def pod(script: str | list[str], **security: Any) -> dict[str, Any]:
    container = shell("main", "", securityContext=security)
    container["command"] = ["sh", "-c", script] if isinstance(script, str) else script
    return {"containers": [container], "restartPolicy": "Never"}


async def test_settings_of_the_kernel_are_protected(tmp_path: Path) -> None:
    async with node_world(tmp_path) as world:
        assert await world.result(pod(WRITABLE + READABLE)) == ""
        text = await world.result(pod("cat /proc/sys/kernel/pid_max /proc/self/comm"), name="r")
        assert text.split()[1] == "cat"


@needs_own_proc
async def test_who_asks_for_it_gets_all_of_proc(tmp_path: Path) -> None:
    async with node_world(tmp_path) as world:
        lists = "cat /proc/self/mountinfo | grep -c ' /proc/' || true"
        assert await world.result(pod(lists, privileged=True)) == "0\n"
        # Without a user namespace, root of the container is the machine's: it stays protected.
        unmasked = pod(lists, procMount="Unmasked") | {"hostUsers": False}
        found = await world.result(unmasked, name="u")
        assert (int(found) > 0) is ROOT
        if ROOT:
            event = await world.event("NotEmulated", pod="u")
            assert "securityContext.procMount: /proc stays protected" in event["message"]


@needs_root
async def test_roots_devices_are_those_of_any_container(tmp_path: Path) -> None:
    async with node_world(tmp_path) as world:
        names = set((await world.result("ls /dev")).split())
        usual = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm"}
        links = {"fd", "stdin", "stdout", "stderr", "core"}
        assert usual <= names
        assert {each for each in names if not each.startswith("nvidia")} <= {
            *usual,
            *links,
            *("termination-log", "dri", "kfd", "infiniband"),
        }
        machine = {entry.name for entry in os.scandir("/dev")}
        found = await world.result(pod("ls /dev", privileged=True), name="all")
        assert len(machine & set(found.split())) >= len(machine & names)


@needs_root
async def test_a_user_without_capabilities_opens_no_file_by_its_inode(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("the administrator's token")
    handle = ctypes.create_string_buffer((128).to_bytes(4, sys.byteorder), 136)
    number = ctypes.c_int()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.name_to_handle_at(-100, os.fsencode(secret), handle, ctypes.byref(number), 0) != 0:
        pytest.skip("this file system has no handles")
    command = [sys.executable, "-c", OPEN, bytes(handle).hex()]
    async with node_world(tmp_path / "state") as world:
        for name, security in (
            ("none", {"runAsUser": 4711, "capabilities": {"drop": ["ALL"]}}),
            ("user", {"runAsUser": 4711}),
            ("root", {}),
        ):
            text = await world.result(pod(command, **security), name=name)
            assert text == "Operation not permitted\n", name
        # It is the capability that keeps them from it.
        allowed = pod(command, capabilities={"add": ["DAC_READ_SEARCH"]})
        assert await world.result(allowed, name="allowed") == "the administrator's token\n"


@needs_root
async def test_another_user_reaches_the_image_and_nothing_else_of_root(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "file").write_text("of root")
    script = "import os, sys; os.listdir(sys.argv[1])"
    command = [sys.executable, "-c", script, "/root"]
    async with node_world(tmp_path / "state") as world:
        await world.pod(pod(command, runAsUser=4711))
        await world.phase("Failed")
        assert "PermissionError" in await world.logs()  # and so the interpreter was found


@needs_root
def test_no_capability_is_left_to_inherit() -> None:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            header = syscalls._CapabilityHeader(syscalls._CAPABILITY_VERSION_3, 0)
            sets = (syscalls._CapabilitySet * 2)()
            syscalls._libc.capget(ctypes.byref(header), ctypes.byref(sets))
            sets[0].inheritable = sets[0].permitted
            syscalls._libc.capset(ctypes.byref(header), ctypes.byref(sets))
            syscalls.limit_capabilities([0])
            os.dup2(write, 1)
            os.execv("/bin/grep", ["grep", "Cap", "/proc/self/status"])
        finally:
            os._exit(1)
    os.close(write)
    with os.fdopen(read) as file:
        found = dict(line.split(":\t") for line in file.read().splitlines())
    os.waitpid(child, 0)
    kept = {name: int(found[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd")}
    assert kept == {"CapInh": 0, "CapPrm": 1, "CapEff": 1, "CapBnd": 1}


@needs_root
async def test_devices_outside_of_dev_cannot_be_opened(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/var/lib") as name:
        os.mknod(f"{name}/node", 0o20666, os.makedev(1, 5))
        script = f"head -c 1 {name}/node | wc -c"
        async with node_world(tmp_path) as world:
            text = await world.result(script)
            assert "Permission denied" in text
            assert await world.result(pod(script, privileged=True), name="all") == "1\n"
