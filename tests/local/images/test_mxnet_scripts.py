"""The scripts of the environment for MXNet: what they accept, before they import MXNet."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FILES = Path(__file__).parents[3] / "src/traincrew/local/images/files/mxnet"
CIFAR, DIGITS = "train_cifar10.py", "train_digits.py"
IMPORTED = "the arguments are accepted"


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A directory with a replacement for MXNet that ends the program."""
    (tmp_path / "mxnet.py").write_text(
        "import os\n"
        "print(os.environ.get('DMLC_NODE_HOST'), flush=True)\n"
        f"raise SystemExit('{IMPORTED}')\n"
    )
    return tmp_path


def run(
    packages: Path, *words: str, role: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run Python as a container of a role would."""
    own = {"DMLC_ROLE": role} if role else {}
    return subprocess.run(
        [sys.executable, *words],
        env={"PATH": os.defpath, "PYTHONPATH": str(packages), **own, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("role", "words"),
    [
        # Those of mxnet-operator's examples.
        ("scheduler", ""),
        ("server", ""),
        ("worker", "--num-epochs=10 --gpus=0 --num-layers=2 --kv-store=dist_device_sync"),
        ("worker", "--num-epochs=10 --model-prefix=./m --num-layers=2 --kv-store=dist_device_sync"),
        ("", "--num-epochs=10 --gpus=0 --model-prefix=./wltest --num-layers=2"),
        ("", "--model-prefix ./wltest --load-epoch 10 --batch-size 64 --lr 0.1 --gpus 0,1"),
        ("", ""),
    ],
)
def test_cifar_accepts_the_arguments_of_manifests(packages: Path, role: str, words: str) -> None:
    result = run(packages, str(FILES / CIFAR), *words.split(), role=role)

    assert result.stderr.strip() == IMPORTED
    serves = f"{role}: serves until all workers have finished"
    assert (serves in result.stdout) == (role in {"scheduler", "server"})


@pytest.mark.parametrize(
    ("script", "role", "words", "message"),
    [
        (CIFAR, "", "--network=resnet", "unrecognized arguments: --network=resnet"),
        (CIFAR, "", "--num-epoch=3", "unrecognized arguments: --num-epoch=3"),
        (CIFAR, "", "--num-epochs=many", "argument --num-epochs: invalid int value: 'many'"),
        (CIFAR, "", "--num-epochs=0", "--num-epochs must be at least 1"),
        (CIFAR, "", "--num-layers=1", "--num-layers must be at least 2"),
        (CIFAR, "", "--batch-size=0", "--batch-size must be at least 1"),
        (CIFAR, "", "--lr=-1", "--lr must be greater than 0"),
        (CIFAR, "", "--gpus=all", '--gpus: "all" is not a list of numbers such as 0,1'),
        (CIFAR, "", "--load-epoch=3", "--load-epoch needs --model-prefix"),
        (CIFAR, "", "--kv-store=nccl", "argument --kv-store: invalid choice: 'nccl'"),
        (CIFAR, "", "--kv-store=dist_sync", "--kv-store dist_sync: DMLC_ROLE is not set"),
        (CIFAR, "worker", "", "--kv-store device: this is a worker; use dist_device_sync"),
        (DIGITS, "", "--epoch-count=3", "unrecognized arguments: --epoch-count=3"),
        (DIGITS, "", "--epochs=0", "--epochs and --batch-size must be at least 1"),
        (DIGITS, "", "--kv-store=dist_sync", "DMLC_ROLE is not set; use local"),
        (DIGITS, "server", "--kv-store=local", "DMLC_ROLE is server, so use dist_sync"),
    ],
)
def test_errors_name_the_argument(
    packages: Path, script: str, role: str, words: str, message: str
) -> None:
    result = run(packages, str(FILES / script), *words.split(), role=role)

    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("role", ["", "scheduler", "server", "worker"])
def test_digits_runs_in_every_role(packages: Path, role: str) -> None:
    words = ["--epochs=3", "--checkpoints=/checkpoints", "--pause=0.5", "--require-accuracy=0.9"]
    result = run(packages, str(FILES / DIGITS), *words, role=role)

    assert result.stderr.strip() == IMPORTED


@pytest.mark.parametrize(
    ("variables", "announced"),
    [
        ({"DMLC_ROLE": "server"}, "127.77.0.3"),
        ({"DMLC_ROLE": "server", "DMLC_NODE_HOST": "10.0.0.1"}, "10.0.0.1"),
        ({"DMLC_ROLE": "server", "DMLC_INTERFACE": "eth0"}, "None"),
        ({}, "None"),
    ],
)
def test_a_process_announces_the_address_of_its_pod(
    packages: Path, variables: dict[str, str], announced: str
) -> None:
    """Unless the manifest names an address or interface, or the job is not distributed."""
    shutil.copy(FILES / "compatibility.py", packages / "compatibility.py")
    (packages / "numpy.py").write_text("")
    script = (
        "import compatibility as found, socket\n"
        "found.LIBRARIES = {}\n"
        "socket.gethostbyname = lambda _: '127.77.0.3'\n"
        "import mxnet"
    )
    result = run(packages, "-c", script, **variables)

    assert result.stdout.strip() == announced
    assert result.stderr.strip() == IMPORTED


def test_numpy_gets_the_names_it_lacks_when_mxnet_is_imported(packages: Path) -> None:
    shutil.copy(FILES / "compatibility.py", packages / "compatibility.py")
    (packages / "numpy.py").write_text("float = 'its own'\n")
    script = (
        "import compatibility, numpy\n"
        "compatibility.LIBRARIES = {}\n"
        "before = hasattr(numpy, 'bool')\n"
        "try:\n    import mxnet\n"
        "except SystemExit:\n    print(before, numpy.bool, numpy.float)"
    )

    assert run(packages, "-c", script).stdout.splitlines()[-1] == "False <class 'bool'> its own"


def test_a_library_that_the_machine_lacks_is_named_with_its_package(packages: Path) -> None:
    shutil.copy(FILES / "compatibility.py", packages / "compatibility.py")
    script = (
        "import compatibility as found, platform, sys\n"
        "sys.platform, platform.machine = 'linux', lambda: 'x86_64'\n"
        "found.LIBRARIES = {'libnowhere.so.1': 'libnowhere1'}\n"
        "import mxnet"
    )

    last = run(packages, "-c", script).stderr.splitlines()[-1]
    assert last == "ImportError: MXNet needs libnowhere.so.1: apt-get install libnowhere1"
