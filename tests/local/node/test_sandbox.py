"""Sandboxes without a cluster: the fork server, isolation of a container, and cleanup."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from local.node.support import CAPABILITIES, DEADLINE, needs_own_proc
from traincrew.local.apiserver.http.node_backend import LogOptions
from traincrew.local.node.containers.bare import mount_variable
from traincrew.local.node.machine.capabilities import Capabilities
from traincrew.local.node.runtime.forkserver import ForkServer
from traincrew.local.node.runtime.instances import Instance, Launch
from traincrew.local.node.runtime.logs import read_log, tail_of
from traincrew.local.node.runtime.processes import (
    ContainerProcess,
    Mount,
    Process,
    RootFilesystem,
    Started,
    StartFailedError,
)
from traincrew.local.node.sandbox import files, mirror, syscalls, tree

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

needs_namespaces = pytest.mark.skipif(
    not CAPABILITIES.namespaces, reason=f"no namespaces: {CAPABILITIES.reason}"
)
PATH = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


class Sandboxes:
    def __init__(self, directory: Path, server: ForkServer) -> None:
        self.directory, self.server = directory, server
        self.count = 0
        self.base = directory / "root"
        self.base.mkdir()

    async def start(
        self, *command: str, mounts: tuple[Mount, ...] = (), overlay: bool = True, **options: Any
    ) -> tuple[Instance, Started]:
        self.count += 1
        instance = Instance(self.directory / "containers" / str(self.count))
        instance.create(Launch(environment=PATH))
        in_user = options.pop("user_namespace", CAPABILITIES.user_namespace)
        process = ContainerProcess(
            directory=str(instance.directory),
            command=list(command),
            environment=PATH,
            hostname="sandbox",
            user_namespace=in_user,
            uid=options.pop("uid", os.getuid() if in_user else None),
            gid=options.pop("gid", os.getgid() if in_user else None),
            rootfs=RootFilesystem(
                base=str(self.base),
                overlay=overlay,
                user_namespace=in_user,
                mounts=list(mounts),
                read_only=options.pop("read_only", False),
            ),
            **options,
        )
        return instance, await self.server.run(process)

    async def output(self, script: str, *mounts: Mount, **options: Any) -> list[str]:
        instance, _ = await self.start("sh", "-c", script, mounts=mounts, **options)
        end = await asyncio.wait_for(instance.wait(), DEADLINE)
        lines = instance.log.read_text().splitlines()
        assert end.exit_code == 0, lines
        return [line.split(" ", 3)[3] for line in lines]


@pytest.fixture
async def sandboxes(tmp_path: Path) -> AsyncIterator[Sandboxes]:
    server = ForkServer(tmp_path, together=True)
    yield Sandboxes(tmp_path, server)
    server.close()
    assert (tmp_path / "forkserver.log").read_text() == ""


def test_detection_explains_missing_capabilities() -> None:
    lines = list(CAPABILITIES.explain())
    assert all(line.available or line.fix or line.reason for line in lines)
    none = Capabilities(namespaces=False, reason="unshare: Operation not permitted")
    assert none.mode == "bare"
    isolation = next(none.explain())
    assert "Operation not permitted" in isolation.reason
    assert isolation.fix


@needs_namespaces
@needs_own_proc
async def test_a_container_sees_its_own_processes_only(sandboxes: Sandboxes) -> None:
    script = "hostname; ls -d /proc/[0-9]* | wc -l; ls /tmp /run; test -c /dev/null; echo $$"
    lines = await sandboxes.output(script)
    assert lines[0] == "sandbox"
    assert int(lines[1]) <= 3
    assert lines[-1] == "1"
    assert lines[2:-1] == ["/run:", "lock", "", "/tmp:"]


@pytest.mark.parametrize("tty", [False, True])
async def test_a_program_inherits_no_descriptors_or_signals(
    sandboxes: Sandboxes, tty: bool
) -> None:
    script = """
    exec python3 -c '
    import os, signal
    print(sorted(int(each) for each in os.listdir("/proc/self/fd"))[:-1])
    print([each.name for each in signal.valid_signals() if isinstance(each, signal.Signals)
        and signal.getsignal(each) is signal.SIG_IGN])
    print(signal.pthread_sigmask(signal.SIG_BLOCK, []))
    '
    """
    code = "\n".join(line.removeprefix("    ") for line in script.splitlines())
    lines = await sandboxes.output(code, namespaces=CAPABILITIES.namespaces, tty=tty)
    # Python itself ignores these two.
    assert [line.rstrip("\r") for line in lines] == ["[0, 1, 2]", "['SIGPIPE', 'SIGXFSZ']", "set()"]


@needs_namespaces
async def test_it_has_the_users_own_identity(sandboxes: Sandboxes) -> None:
    assert await sandboxes.output("id -u; id -g") == [str(os.getuid()), str(os.getgid())]


@needs_namespaces
async def test_another_identity(sandboxes: Sandboxes) -> None:
    lines = await sandboxes.output(
        "id -u; id -g; touch /tmp/x; stat -c %u /tmp/x", uid=4711, gid=42
    )
    assert lines == ["4711", "42", "4711"]


@needs_namespaces
@pytest.mark.parametrize("overlay", [True, False])
async def test_mounts_are_at_their_exact_paths(
    sandboxes: Sandboxes, tmp_path: Path, overlay: bool
) -> None:
    """Mounts work with overlays and on kernels that refuse them."""
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "file").write_text("content\n")
    lines = await sandboxes.output(
        """
        cat /made/up/path/file /usr/share/made/up/file /etc/single
        cat /etc/hostname /etc/hosts
        echo new > /made/up/path/new
        touch /readonly/x 2> /dev/null || echo refused
        cat /made/up/path/inner/other
        stat -f -c %T /scratch
        test -d /work/directory && ls /usr/bin/env
        """,
        Mount("bind", "/made/up/path", str(volume)),
        Mount("bind", "/usr/share/made/up", str(volume)),
        Mount("bind", "/etc/single", str(volume / "file")),
        Mount("bind", "/readonly", str(volume), read_only=True),
        Mount("file", "/etc/hostname", content="written\n"),
        Mount("bind", "/run/names", str(volume)),
        Mount("symlink", "/etc/hosts", to="/run/names/file"),
        Mount("tmpfs", "/made/up/path/inner"),
        Mount("bind", "/made/up/path/inner/other", str(volume / "file")),
        Mount("tmpfs", "/scratch"),
        Mount("directory", "/work/directory"),
        overlay=overlay,
    )
    content = ["content"] * 3
    assert lines == [*content, "written", "content", "refused", "content", "tmpfs", "/usr/bin/env"]
    assert (volume / "new").read_text() == "new\n"
    assert not Path("/made").exists()


@needs_namespaces
@pytest.mark.parametrize("overlay", [True, False])
async def test_small_files_of_an_image_can_be_replaced(
    sandboxes: Sandboxes, tmp_path: Path, overlay: bool
) -> None:
    original = tmp_path / "original"
    original.write_text("#!/bin/sh\necho original\n")
    original.chmod(0o755)
    volume = tmp_path / "volume"
    volume.mkdir()
    lines = await sandboxes.output(
        """
        /program; /etc/host.conf
        mv /program /elsewhere && /elsewhere && ls /program 2> /dev/null || echo gone
        sed -i s/original/changed/ /etc/host.conf; /etc/host.conf
        cat /v/file
        """,
        Mount("copy", "/program", str(original)),
        Mount("copy", "/etc/host.conf", str(original)),
        Mount("bind", "/v", str(volume)),
        Mount("copy", "/v/file", str(original)),
        overlay=overlay,
    )
    assert lines == [*["original"] * 3, "gone", "changed", "#!/bin/sh", "echo original"]
    assert original.read_text() == "#!/bin/sh\necho original\n"
    assert (volume / "file").stat().st_size == 0


@needs_namespaces
async def test_writes_are_private_and_discarded(sandboxes: Sandboxes) -> None:
    script = "echo x > /private-file; mkdir /private; echo y > /opt/private; cat /opt/private"
    assert await sandboxes.output(script) == ["y"]
    assert not Path("/private-file").exists()
    assert not Path("/opt/private").exists()
    assert await sandboxes.output("ls -d /private /opt/private 2> /dev/null || echo gone") == [
        "gone"
    ]


@needs_namespaces
async def test_a_read_only_root(sandboxes: Sandboxes, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    script = (
        "for f in /x /opt/x /tmp/x /v/x /dev/shm/x; do touch $f 2> /dev/null && echo $f; done; :"
    )
    lines = await sandboxes.output(
        script,
        Mount("bind", "/v", str(volume)),
        Mount("bind", "/dev/shm", str(volume)),
        read_only=True,
    )
    assert lines == ["/v/x", "/dev/shm/x"]


@needs_namespaces
async def test_an_invalid_mount_is_explained(sandboxes: Sandboxes, tmp_path: Path) -> None:
    mount = Mount("bind", "/etc/passwd/sub", str(tmp_path))
    with pytest.raises(StartFailedError, match="/etc/passwd") as caught:
        await sandboxes.start("true", mounts=(mount,))
    assert caught.value.reason == "ContainerCannotRun"


@needs_namespaces
async def test_a_terminal(sandboxes: Sandboxes) -> None:
    lines = await sandboxes.output("tty; stty size; test -t 0 && echo yes", tty=True)
    assert [line.rstrip("\r") for line in lines] == ["/dev/pts/0", "24 80", "yes"]


@needs_namespaces
async def test_the_program_is_killed_with_its_shim(sandboxes: Sandboxes) -> None:
    instance, started = await sandboxes.start("sleep", "1000")
    os.kill(started.shim.pid, signal.SIGKILL)
    end = await asyncio.wait_for(instance.wait(), DEADLINE)
    assert (end.exit_code, end.reason) == (137, "ContainerStatusUnknown")
    assert started.program is not None
    await until(lambda: not files.is_running(started.program.pid, started.program.start))


def mounts(process: int | str) -> set[tuple[str, str]]:
    """Return the mounts of a process: device (major:minor) and directory, see proc(5)."""
    lines = Path(f"/proc/{process}/mountinfo").read_text().splitlines()
    return {(fields[2], fields[3]) for fields in map(str.split, lines)}


async def mounts_that_leak(sandboxes: Sandboxes) -> set[tuple[str, str]]:
    before = mounts("self")
    instance, started = await sandboxes.start("sleep", "1000")
    assert started.program is not None
    found = (mounts("self") - before) & mounts(started.program.pid)
    instance.kill()
    await instance.wait()
    return found


@needs_namespaces
async def test_no_mount_reaches_the_machine(sandboxes: Sandboxes) -> None:
    # What another process (a kubelet, say) mounts just before the container starts is in both: only
    # what leaks does so each time.
    assert not all([await mounts_that_leak(sandboxes) for _ in range(3)])


async def test_a_start_has_one_time(sandboxes: Sandboxes) -> None:
    instance, started = await sandboxes.start("true", namespaces=False)
    end = await asyncio.wait_for(instance.wait(), 60)
    found_again = Instance(instance.directory)
    assert started.started_at
    assert {instance.started_at(), found_again.started_at(), end.started_at} == {started.started_at}


def test_directories_that_vanish_during_setup_are_skipped(tmp_path: Path) -> None:
    root, layers = tmp_path / "root", tmp_path / "layers"
    (root / "volume").mkdir(parents=True)
    layers.mkdir()
    mirrored = mirror.Mirror(str(root), str(layers), overlay=True, user_namespace=True)
    mirrored._directory(str(tmp_path / "unmounted"), str(root / "volume"))
    assert mirrored.overlays == 0
    assert list((root / "volume").iterdir()) == []


async def test_plain_processes_of_bare_mode(sandboxes: Sandboxes) -> None:
    instance, started = await sandboxes.start("sh", "-c", "exec sleep 1000", namespaces=False)
    assert started.program is not None
    assert os.getsid(started.program.pid) == started.program.pid
    instance.kill()
    end = await asyncio.wait_for(instance.wait(), DEADLINE)
    assert (end.exit_code, end.signal) == (137, 9)


async def test_bare_mode_leaves_no_processes(sandboxes: Sandboxes, tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    script = (
        f"setsid sh -c 'echo $$ > {mark}; exec sleep 1000' & while ! test -s {mark}; do :; done"
    )
    instance, _ = await sandboxes.start("sh", "-c", script, namespaces=False)
    assert (await asyncio.wait_for(instance.wait(), DEADLINE)).exit_code == 0
    left = int(mark.read_text())
    await until(lambda: not is_there(left))


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["no-such-program"], 'exec: "no-such-program": executable file not found in $PATH'),
        (["/no/program"], 'exec: "/no/program": stat /no/program: no such file or directory'),
        (["/etc/passwd"], 'exec: "/etc/passwd": permission denied'),
    ],
)
async def test_programs_that_cannot_start(
    sandboxes: Sandboxes, command: list[str], message: str
) -> None:
    with pytest.raises(StartFailedError) as caught:
        await sandboxes.start(*command, namespaces=False)
    assert (caught.value.reason, caught.value.message) == ("StartError", message)
    end = Instance(sandboxes.directory / "containers" / "1").exit()
    assert end is not None
    assert (end.exit_code, end.message) == (128, message)


async def test_a_start_that_fails_after_its_caller_was_cancelled_is_no_error(
    sandboxes: Sandboxes,
) -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    caller = asyncio.create_task(sandboxes.start("/no/program", namespaces=False))
    while not sandboxes.server._starting:
        await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    # Not by `settle`, which would take notice of the failure.
    while sandboxes.server._starting:
        await asyncio.sleep(0)
    del caller
    gc.collect()

    assert reported == []


async def test_an_abandoned_instance_does_not_start(
    sandboxes: Sandboxes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "ran"
    create = Instance.create

    def create_and_abandon(self: Instance, launch: Launch) -> None:
        # As if the node had given it up between the request and the start.
        create(self, launch)
        self.abandon()

    monkeypatch.setattr(Instance, "create", create_and_abandon)
    with pytest.raises(StartFailedError, match="given up before it started"):
        await sandboxes.start("touch", str(mark), namespaces=False)
    assert not mark.exists()


async def test_a_killed_fork_server_is_replaced(sandboxes: Sandboxes) -> None:
    instance, _ = await sandboxes.start("true", namespaces=False)
    await instance.wait()
    process = sandboxes.server._process
    assert process is not None
    process.kill()
    process.wait()
    instance, _ = await sandboxes.start("true", namespaces=False)
    assert (await instance.wait()).exit_code == 0


async def test_long_lines_are_reassembled(sandboxes: Sandboxes, tmp_path: Path) -> None:
    # The rest of the line is written when its first parts are in the log: it fits in the pipe,
    # and a part that is read together with the end of the line is not split.
    go = tmp_path / "go"
    script = (
        "head -c 40000 /dev/zero | tr '\\0' x; "
        f"while ! test -e {go}; do sleep 0.01; done; echo end; printf unfinished"
    )
    instance, _ = await sandboxes.start("sh", "-c", script, namespaces=False)
    await until(lambda: instance.log.read_bytes().count(b" P ") == 2)
    go.touch()
    await instance.wait()
    tags = [line.split(b" ", 3)[2] for line in instance.log.read_bytes().splitlines()]
    assert tags == [b"P", b"P", b"F", b"P"]
    chunks = read_log(instance.log, LogOptions(), lambda: True, lambda: datetime.now(UTC))
    text = b"".join([chunk async for chunk in chunks])
    assert text == b"x" * 40000 + b"end\nunfinished"
    for lines, expected in ((1, b"unfinished"), (2, b"end\nunfinished")):
        tail = read_log(
            instance.log, LogOptions(tail_lines=lines), lambda: True, lambda: datetime.now(UTC)
        )
        assert b"".join([chunk async for chunk in tail]).endswith(expected)
        assert tail_of(instance.log, lines, 2048).endswith(expected.decode())


async def test_a_reused_pid_is_detected(tmp_path: Path) -> None:
    instance = Instance(tmp_path / "1")
    instance.create(Launch(environment={}))
    own = {"pid": os.getpid(), "start": files.start_time(os.getpid()) - 1}
    text = json.dumps({"shim": own, "program": own})
    (instance.directory / "process.json").write_text(text)
    assert not instance.is_alive()
    instance.kill()  # would end the test run
    assert (await instance.wait()).reason == "ContainerStatusUnknown"


def test_processes_without_procfs() -> None:
    state, started = files.describe_by_ps(os.getpid())
    assert state in "RSD"
    assert 0 <= time.time() - started < 86400
    with pytest.raises(ProcessLookupError):
        files.describe_by_ps(2**22 + 1)


def test_mount_points_with_odd_names() -> None:
    assert syscalls._unescape(rb"/a\040b\134c") == b"/a b\\c"
    assert tree.escaped("/a:b,c\\d") == "/a\\:b\\,c\\\\d"
    assert mount_variable("my-data.0") == "TRAINCREW_MOUNT_MY_DATA_0"
    assert Process(1, 2) == Process(1, 2)


async def until(test: Any) -> None:
    deadline = time.monotonic() + DEADLINE
    while not test():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


def is_there(process: int) -> bool:
    if sys.platform != "linux":
        return True
    try:
        return files._describe(process)[0] not in {"Z", "X"}
    except OSError:
        return False
