"""Checks of hack/cluster before it starts anything."""

import io
import json
import os
import sys
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner
from hack.cluster import Options, RealCluster, binaries, certificates, missing, preflight
from hack.cluster.__main__ import main
from hack.cluster.images import File, layer_of, program_image
from hack.cluster.network import Network
from hack.cluster.processes import NotReady, Process


@pytest.fixture
def empty_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine with nothing on it, used by somebody who is not root."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(preflight, "CNI_PLUGINS", tmp_path)


@pytest.mark.usefixtures("empty_machine")
def test_everything_that_is_missing_is_listed_at_once() -> None:
    lacking = "\n".join(missing())
    assert "root: " in lacking
    assert "apt-get install" in lacking
    for package in ("runc", "iproute2", "nftables", "containernetworking-plugins"):
        assert package in lacking
    assert "Go 1.26 or newer" in lacking


@pytest.mark.usefixtures("empty_machine")
def test_nothing_is_started_when_something_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRAINCREW_CLUSTER_DIRECTORY", str(tmp_path / "clusters"))
    with pytest.raises(preflight.Unavailable, match="a real cluster cannot run here; missing:"):
        RealCluster(Options("nowhere")).start()
    assert not (tmp_path / "clusters").exists()


@pytest.mark.parametrize("name", ["", "Upper", "9lives", "a" * 21, "with space", "../up"])
def test_a_name_that_cannot_be_used_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="use a-z, 0-9 and -, at most 20"):
        RealCluster(Options(name))


def test_a_cluster_that_is_not_running_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRAINCREW_CLUSTER_DIRECTORY", str(tmp_path))
    with pytest.raises(NotReady, match="no cluster 'ghost' is running; start it with"):
        RealCluster.attach("ghost")


def test_kueue_needs_a_node() -> None:
    result = CliRunner().invoke(main, ["up", "--kueue", "--nodes=0"])
    assert result.exit_code == 2
    assert "--kueue: needs --nodes=1 or more" in result.output


def test_the_image_of_a_program_has_only_the_program(tmp_path: Path) -> None:
    program = tmp_path / "kueue"
    program.write_bytes(b"a program")
    archive = tmp_path / "image.tar"
    program_image(archive, "example.com/kueue:1", program, "manager")
    with tarfile.open(archive) as image:
        (entry,) = json.load(image.extractfile("manifest.json"))  # type: ignore[arg-type]
        config = json.load(image.extractfile(entry["Config"]))["config"]  # type: ignore[arg-type]
        (name,) = entry["Layers"]
        with tarfile.open(fileobj=image.extractfile(name)) as layer:
            (file,) = layer.getmembers()
    assert entry["RepoTags"] == ["example.com/kueue:1"]
    assert config == {"Entrypoint": ["/manager"], "User": "65535:65535"}
    assert (file.name, file.mode, file.size) == ("manager", 0o755, 9)


def test_a_layer_has_directories_links_and_set_user_id_programs() -> None:
    su = File(b"program", 0o4755)
    written = layer_of({"tmp/": File(b"", 0o1777), "bin/su": su, "bin/sh": "/bin/su"})
    with tarfile.open(fileobj=io.BytesIO(written)) as layer:
        directory, program, link = layer.getmembers()
        found = layer.extractfile(program)
        assert found is not None
        assert found.read() == b"program"
    assert (directory.name, directory.isdir(), directory.mode) == ("tmp", True, 0o1777)
    assert (program.name, program.mode, program.uid) == ("bin/su", 0o4755, 0)
    assert (link.name, link.issym(), link.linkname) == ("bin/sh", True, "/bin/su")


def test_clusters_of_one_machine_share_no_address() -> None:
    first, second = Network("first", 0), Network("second", 1)
    assert first.address == "10.200.0.1"
    assert second.address == "10.201.0.1"
    assert first.node_address(1) != first.node_address(2)
    assert first.pods_of(1) == "10.200.1.0/24"
    assert first.node(1) == "traincrew-first-node-1"


def test_a_kubeconfig_needs_no_other_file(tmp_path: Path) -> None:
    authority = certificates.Authority(tmp_path)
    pair = authority.client("admin", "admin", "system:masters")
    path = certificates.write_kubeconfig(
        tmp_path / "kubeconfig", "https://10.200.0.1:6443", authority.certificate, pair
    )
    document = json.loads(path.read_text())
    assert document["clusters"][0]["cluster"]["server"] == "https://10.200.0.1:6443"
    assert str(tmp_path) not in path.read_text()
    assert path.stat().st_mode & 0o077 == 0


def test_programs_of_one_module_share_a_directory() -> None:
    shim = binaries.path("containerd-shim-runc-v2")
    assert binaries.path("containerd").parent == shim.parent
    assert binaries.path("etcd").parent != shim.parent
    assert binaries.version("kubernetes").startswith("1.")


def test_a_process_is_found_again_and_paused_and_ended(tmp_path: Path) -> None:
    process = Process("sleeper", tmp_path, tmp_path / "sleeper.log")
    before = process.pid
    assert before is None
    process.start(["sleep", "60"])
    again = Process("sleeper", tmp_path, tmp_path / "sleeper.log")
    assert again.pid == process.pid is not None
    process.pause()
    process.resume()
    pid = process.pid
    again.restart()
    assert process.pid not in {None, pid}
    process.kill()
    assert again.pid is None


LEADERLESS = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
print("alone", flush=True)
ctypes.CDLL(None).pthread_exit(None)  # of this thread, as when SIGKILL has got to it
"""


def test_a_process_exists_as_long_as_one_of_its_threads(tmp_path: Path) -> None:
    """Until then its ports are in use."""
    process = Process("threads", tmp_path, tmp_path / "threads.log")
    process.start([sys.executable, "-c", LEADERLESS])
    state = Path(f"/proc/{process.pid}/stat")
    process.wait(lambda: ") Z" in state.read_text(), 30)
    assert process.pid is not None
    process.kill()
    assert process.pid is None


def test_a_process_that_ends_while_starting_shows_its_log(tmp_path: Path) -> None:
    process = Process("loser", tmp_path, tmp_path / "loser.log")
    process.start(["sh", "-c", "echo no such flag; exit 1"])
    with pytest.raises(NotReady, match=r"loser ended while starting\n(.|\n)*no such flag"):
        process.wait(lambda: False, 30)
