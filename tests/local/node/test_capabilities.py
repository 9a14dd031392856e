"""The advice for machines that refuse namespaces."""

from pathlib import Path

import pytest

from traincrew.local.node.containers.bare import replace_paths
from traincrew.local.node.machine.capabilities import namespace_fix

APPARMOR = "kernel.apparmor_restrict_unprivileged_userns"
CLONE = "kernel.unprivileged_userns_clone"
MAXIMUM = "user.max_user_namespaces"


@pytest.mark.parametrize(
    ("settings", "filtered", "fix"),
    [
        # Ubuntu 24.04
        ({APPARMOR: 1, CLONE: 1, MAXIMUM: 62000}, False, f"sudo sysctl -w {APPARMOR}=0"),
        # Debian 10
        ({CLONE: 0, MAXIMUM: 62000}, False, f"sudo sysctl -w {CLONE}=1"),
        ({MAXIMUM: 0}, False, f"sudo sysctl -w {MAXIMUM}=10000"),
        ({MAXIMUM: 0, CLONE: 0}, False, f"sudo sysctl -w {MAXIMUM}=10000 {CLONE}=1"),
    ],
)
def test_settings_of_the_kernel(
    tmp_path: Path, settings: dict[str, int], filtered: bool, fix: str
) -> None:
    kernel(tmp_path, settings, filtered)
    assert namespace_fix(tmp_path, "linux") == fix


def kernel(proc: Path, settings: dict[str, int], filtered: bool) -> None:
    for name, value in settings.items():
        path = proc / "sys" / name.replace(".", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n")
    (proc / "self").mkdir(exist_ok=True)
    (proc / "self/status").write_text(f"Name:\tx\nSeccomp:\t{2 if filtered else 0}\nThreads:\t1\n")


def test_a_container(tmp_path: Path) -> None:
    kernel(tmp_path, {APPARMOR: 0}, filtered=True)
    fix = namespace_fix(tmp_path, "linux")
    assert "--security-opt seccomp=unconfined" in fix
    assert "seccompProfile: {type: Unconfined}" in fix
    assert "sysctl" not in fix


def test_a_container_on_ubuntu(tmp_path: Path) -> None:
    kernel(tmp_path, {APPARMOR: 1}, filtered=True)
    fix = namespace_fix(tmp_path, "linux")
    assert fix.startswith(f"on the host: sudo sysctl -w {APPARMOR}=0; and start this container by ")


def test_a_machine_whose_reason_is_unknown(tmp_path: Path) -> None:
    kernel(tmp_path, {MAXIMUM: 62000}, filtered=False)
    assert "--privileged" in namespace_fix(tmp_path, "linux")
    assert "Linux" in namespace_fix(tmp_path, "darwin")


@pytest.mark.parametrize(
    ("text", "replaced"),
    [
        ("/data", "/real place"),
        ("/data/train.csv", "/real place/train.csv"),
        ("--input=/data", "--input=/real place"),
        ("cat /data/a;ls '/data'", "cat /real place/a;ls '/real place'"),
        ("PATH=/bin:/data:/usr", "PATH=/bin:/real place:/usr"),
        ("/data/inner/x", "/inside/x"),
        ("/database", "/database"),
        ("/data.csv", "/data.csv"),
        ("/my/data", "/my/data"),
        ("../data ~/data", "../data ~/data"),
        ("", ""),
    ],
)
def test_replacement_of_paths_in_bare_mode(text: str, replaced: str) -> None:
    places = {"/data": "/real place", "/data/inner": "/inside"}
    assert replace_paths(text, places) == replaced
    assert replace_paths(text, {}) == text
