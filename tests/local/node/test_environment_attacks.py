"""Pods cannot change the environments that they share, whatever they try."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from local.node.support import CAPABILITIES
from local.node.test_sandbox import Sandboxes, needs_namespaces
from traincrew.local.directories import remove_tree
from traincrew.local.images.trees import Marker, Seals, finish
from traincrew.local.node.runtime.forkserver import ForkServer
from traincrew.local.node.runtime.processes import Mount
from traincrew.local.node.sandbox import syscalls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

MODULE = "ANSWER = 42\n"

# As root in the container: every way out that is known to have worked somewhere. Most fail, some
# change the container's own copy; the test looks at the machine's.
ATTACK = r"""
import ctypes, glob, os, shutil, sys
tree = sys.argv[1]
module = tree + "/lib/module.py"
libc = ctypes.CDLL(None, use_errno=True)
REMOUNT, BIND, NEWNS, NEWUSER, DETACH = 0x20, 0x1000, 0x20000, 0x10000000, 2

def attempt(what, function, *arguments):
    try:
        function(*arguments)
    except OSError as error:
        print(what, error.strerror)
    else:
        print(what, "done")

def write(path):
    with open(path, "r+") as file:
        file.write("EVIL")

def unprotect(path):
    os.chmod(path, 0o666)
    write(path)

def create(directory):
    os.chmod(directory, 0o777)
    with open(directory + "/evil.py", "w") as file:
        file.write("EVIL")

def replace(path):
    with open("/tmp/evil", "w") as file:
        file.write("EVIL")
    shutil.move("/tmp/evil", path)

def link(path):
    os.link(path, os.path.dirname(path) + "/second")
    unprotect(os.path.dirname(path) + "/second")

def call(function, *arguments):
    if function(*arguments) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))

def writes(what):
    attempt(what + " write", write, module)
    attempt(what + " unprotect", unprotect, module)
    attempt(what + " create", create, tree + "/lib")
    attempt(what + " replace", replace, module)
    attempt(what + " link", link, module)
    for path in glob.glob("/proc/*/root") + glob.glob("/proc/*/cwd") + glob.glob("/proc/1/fd/*"):
        attempt(what + " " + path, unprotect, path + module)

def mounts(what):
    above = tree
    while True:
        for flags in (REMOUNT | BIND, REMOUNT):
            attempt(what + " remount", call, libc.mount, None, above.encode(), None, flags, None)
        if above == "/":
            break
        above = os.path.dirname(above)

writes("at first")
mounts("remounting")
writes("remounted")
attempt("unshare", call, libc.unshare, NEWUSER | NEWNS)
for name, text in (("setgroups", "deny"), ("uid_map", "0 0 1"), ("gid_map", "0 0 1")):
    try:
        with open("/proc/self/" + name, "w") as file:
            file.write(text)
    except OSError as error:
        print(name, error.strerror)
mounts("in a namespace")
writes("in a namespace")
attempt("unmount", call, libc.umount2, tree.encode(), DETACH)
writes("unmounted")
attempt("chroot", os.chroot, "/proc/1/root")
writes("in a chroot")
shutil.rmtree(tree, ignore_errors=True)
print("end")
"""


@pytest.fixture
def tree(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A finished environment: in the temporary directory, or in one that pods see."""
    if request.param == "temporary":
        recipe = tmp_path / "environments" / "0123"
        recipe.parent.mkdir()
    else:
        recipe = Path(tempfile.mkdtemp(dir="/var/tmp")) / "0123"
    recipe.mkdir()
    make(recipe)
    yield recipe
    remove_tree(recipe)
    shutil.rmtree(recipe.parent)


def make(tree: Path) -> None:
    (tree / "lib").mkdir()
    (tree / "lib" / "module.py").write_text(MODULE)
    (tree / "bin").mkdir()
    (tree / "bin" / "python").symlink_to(sys.executable)
    finish(tree, Marker("attacked", "", "", "3.99", "python", (), 0.0))


@pytest.fixture
async def sandboxes(tmp_path: Path) -> AsyncIterator[Sandboxes]:
    server = ForkServer(tmp_path, together=True)
    yield Sandboxes(tmp_path, server)
    server.close()


@needs_namespaces
@pytest.mark.parametrize("overlay", [True, False], ids=["overlay", "no overlay"])
@pytest.mark.parametrize("tree", ["temporary", "mirrored"], indirect=True)
async def test_root_of_a_user_namespace(sandboxes: Sandboxes, tree: Path, overlay: bool) -> None:
    lines = await attack(sandboxes, tree, overlay=overlay, user_namespace=True)
    assert intact(tree), lines
    if not overlay:
        assert "at first unprotect Read-only file system" in lines
    elif tree.is_relative_to(tempfile.gettempdir()):
        # As in the container of an image: root there has a copy of its own.
        assert "at first unprotect done" in lines


@needs_namespaces
@pytest.mark.skipif(CAPABILITIES.user_namespace, reason="needs real root")
@pytest.mark.parametrize("tree", ["temporary", "mirrored"], indirect=True)
async def test_real_root_with_an_overlay(sandboxes: Sandboxes, tree: Path) -> None:
    lines = await attack(sandboxes, tree, overlay=True, user_namespace=False)
    assert intact(tree), lines


async def attack(
    sandboxes: Sandboxes, tree: Path, *, overlay: bool, user_namespace: bool
) -> list[str]:
    mounts = (Mount("overlay", str(tree), str(tree)),) if str(tree).startswith("/tmp/") else ()
    lines = await sandboxes.output(
        f"exec python3 -c '{ATTACK}' {tree}",
        *mounts,
        overlay=overlay,
        user_namespace=user_namespace,
        uid=0 if user_namespace else None,
        gid=0 if user_namespace else None,
    )
    assert lines[-1] == "end"
    return lines


def intact(tree: Path) -> bool:
    """Return whether nothing at all has happened to it: no write, and no change of a mode."""
    return Seals().is_unchanged(tree) and not Seals().damage(tree)


NESTED = r"""
import os, sys
sys.path.insert(0, sys.argv[1])
import syscalls
syscalls._SYS_MOUNT_SETATTR = int(sys.argv[2])
uid, gid = os.geteuid(), os.getegid()
if uid:
    syscalls.unshare(syscalls.CLONE_NEWUSER)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
syscalls.unshare(syscalls.CLONE_NEWNS)
syscalls.mount("none", "/", None, syscalls.MS_REC | syscalls.MS_PRIVATE)
top, seen = sys.argv[3] + "/machine", sys.argv[3] + "/pod"
for path in (top, top + "/nested"):
    os.mkdir(path)
    syscalls.mount("test", path, "tmpfs")
os.mkdir(seen)
syscalls.bind(top, seen, read_only=True)
for path in (seen, seen + "/nested"):
    try:
        open(path + "/file", "w")
    except OSError as error:
        print(error.strerror)
"""


@needs_namespaces
@pytest.mark.parametrize("call", [442, 9999], ids=["mount_setattr", "before Linux 5.12"])
def test_mounts_below_a_read_only_one_are_read_only(tmp_path: Path, call: int) -> None:
    """Without overlays, directories of the machine are bound with everything mounted below."""
    here = str(Path(syscalls.__file__).parent)
    result = subprocess.run(
        [sys.executable, "-c", NESTED, here, str(call), str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout == "Read-only file system\n" * 2
