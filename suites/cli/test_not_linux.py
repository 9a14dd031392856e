"""What reads a cluster works where the interfaces of Linux are missing, as on macOS.

A real macOS is not available to these tests: they take the interfaces away.
"""

import subprocess
import sys

import pytest

from cli.anycluster import Embedded, embedded, script

__all__ = ["embedded"]

PRELUDE = """
import asyncio, ctypes, errno, fcntl, os, selectors, signal, socket, sys

selectors.DefaultSelector = selectors.PollSelector
for module, names in {
    os: "unshare setns memfd_create pidfd_open eventfd sched_setaffinity sched_getaffinity "
        "O_TMPFILE O_PATH splice posix_fadvise copy_file_range getrandom getxattr pipe2",
    selectors.select: "epoll",
    signal: "pidfd_send_signal sigtimedwait SIGRTMIN SIGPWR",
    socket: "AF_NETLINK SO_PEERCRED TCP_KEEPIDLE TCP_USER_TIMEOUT SOCK_CLOEXEC",
    fcntl: "F_SETPIPE_SZ F_ADD_SEALS",
}.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)

def refuse(event, args):
    if event == "open" and str(args[0]).startswith(("/proc/", "/sys/", "/dev/shm/")):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), args[0])

sys.addaudithook(refuse)
"""


def without_linux(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", f"{PRELUDE}\n{program}", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )


MAIN = "import traincrew\ntraincrew.LocalCluster\nfrom traincrew.cli.main import main\nmain()\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("--help",), "Commands:"), (("manifests", "--crds-only"), "CustomResourceDefinition")],
)
def test_without_a_cluster(arguments: tuple[str, ...], said: str) -> None:
    result = without_linux(MAIN, *arguments)
    assert result.returncode == 0, result.stderr
    assert said in result.stdout


def test_on_a_cluster(embedded: Embedded) -> None:
    embedded.create(script("digits", "echo accuracy=0.9"))
    for arguments, said in (
        (("watch", "digits"), "Succeeded after"),
        (("list",), "Succeeded"),
        (("logs", "digits"), "accuracy=0.9"),
        (("why", "digits"), "has succeeded"),
    ):
        result = without_linux(MAIN, *arguments, "--kubeconfig", str(embedded.kubeconfig))
        assert result.returncode == 0, result.stderr
        assert said in result.stdout
