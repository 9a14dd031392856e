"""Training in the real Chainer environment, built by uv: on one host, and on several."""

import asyncio
import contextlib
import gzip
import json
import re
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from traincrew.local.images import Environment
from traincrew.local.images.interpreters import InterpreterNotFoundError, find_interpreter

from .conftest import Hosts, pull

ACCURACY = re.compile(r"^validation accuracy: (0\.\d+)$", re.MULTILINE)
EPOCH = re.compile(
    r"^epoch +(\d+)  loss ([\d.]+)  accuracy [\d.]+  validation loss .*$", re.MULTILINE
)


def python(
    environment: Environment, directory: Path, *words: str, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run Python as a container of the image would."""
    return subprocess.run(
        ["python3", *words],
        env={**environment.variables, "HOME": str(directory), **more},
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def mpi(hosts: Hosts, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return hosts.run("mpiexec", "-n", "3", "-N", "1", *words, **more)


# -- one host ----------------------------------------------------------------------------------


def test_digits(chainer: Environment, tmp_path: Path) -> None:
    result = python(chainer, tmp_path, str(chainer.files["/examples/train_digits.py"]))
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert float(ACCURACY.findall(result.stdout)[-1]) >= 0.95


def test_digits_fail_below_the_required_accuracy(chainer: Environment, tmp_path: Path) -> None:
    script = str(chainer.files["/examples/train_digits.py"])
    result = python(chainer, tmp_path, script, "-e", "1", "--require-accuracy", "1.1")
    assert result.returncode == 1
    assert "the validation accuracy is below 1.1" in result.stderr


def test_train_mnist_without_mnist_uses_digits(chainer: Environment, tmp_path: Path) -> None:
    script = str(chainer.files["/train_mnist.py"])
    result = python(chainer, tmp_path, script, *["-e", "40", "-b", "50", "-u", "100", "--noplot"])
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert result.stdout.startswith(
        "data: MNIST is not on disk (MNIST_DIR), so training on scikit-learn's 1797 bundled 8x8 "
        "digits instead\n"
    )
    epochs = EPOCH.findall(result.stdout)
    assert [int(number) for number, _ in epochs] == list(range(1, 41))
    assert float(epochs[-1][1]) < float(epochs[0][1]) / 4
    log = json.loads((tmp_path / "result/log").read_text())
    assert log[-1]["validation/main/accuracy"] >= 0.95


def test_train_mnist_resumes_from_a_snapshot(chainer: Environment, tmp_path: Path) -> None:
    script = str(chainer.files["/train_mnist.py"])
    options = ["-b", "100", "-u", "50", "-o", "out"]
    first = python(chainer, tmp_path, script, *options, "-e", "2")
    assert first.returncode == 0, first.stderr
    snapshot = next((tmp_path / "out").glob("snapshot*"))
    second = python(chainer, tmp_path, script, *options, "-e", "4", "-r", str(snapshot))
    assert second.returncode == 0, second.stderr
    assert [int(number) for number, _ in EPOCH.findall(second.stdout)] == [3, 4]


SAVE_NPZ = """
import numpy, sys
name, count = sys.argv[1], int(sys.argv[2])
images = numpy.frombuffer(sys.stdin.buffer.read(), numpy.uint8).reshape(count, 784)
numpy.savez(name, x=images, y=numpy.arange(count, dtype=numpy.uint8) % 2)
"""


def write_mnist(directory: Path, form: str, environment: Environment) -> None:
    """Write a small data set in one of the forms MNIST comes in: two kinds of stripes."""
    rows = bytes(255 if y % 4 < 2 else 0 for y in range(28) for _ in range(28))
    columns = bytes(255 if x % 4 < 2 else 0 for _ in range(28) for x in range(28))
    for name, saved, count in (("train", "train.npz", 400), ("t10k", "test.npz", 100)):
        images, labels = (rows + columns) * (count // 2), b"\x00\x01" * (count // 2)
        if form == "npz":
            subprocess.run(
                ["python3", "-c", SAVE_NPZ, saved, str(count)],
                input=images,
                env=dict(environment.variables),
                cwd=directory,
                check=True,
            )
            continue
        contents = {
            f"{name}-images-idx3-ubyte": struct.pack(">4B3I", 0, 0, 8, 3, count, 28, 28) + images,
            f"{name}-labels-idx1-ubyte": struct.pack(">4BI", 0, 0, 8, 1, count) + labels,
        }
        for file, content in contents.items():
            if form == "gz":
                (directory / f"{file}.gz").write_bytes(gzip.compress(content))
            else:
                (directory / file).write_bytes(content)


@pytest.mark.parametrize("form", ["idx", "gz", "npz"])
@pytest.mark.parametrize("image", ["chainer", "chainermn"])
def test_train_mnist_reads_mnist_from_disk(
    image: str, form: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    environment: Environment = request.getfixturevalue(image)
    write_mnist(tmp_path, form, environment)
    script = str(environment.files["/train_mnist.py"])
    result = python(
        environment,
        tmp_path,
        script,
        *["-e", "3", "-b", "20", "-u", "200"],
        MNIST_DIR=str(tmp_path),
    )
    assert result.returncode == 0, result.stderr
    assert f"data: MNIST from {tmp_path}, 400 images to train on\n" in result.stdout
    assert "validation accuracy 1.0000" in result.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-e", "0"], "--epoch must be at least 1"),
        (["-e", "many"], "argument -e/--epoch: invalid int value: 'many'"),
        (["-r", "gone"], "--resume gone: No such file or directory"),
        (["-g", "0"], "--device 0: not usable here"),
        (["--device", "@cupy:0"], "--device @cupy:0: not usable here"),
    ],
)
def test_train_mnist_explains_errors(
    words: list[str], message: str, chainer: Environment, tmp_path: Path
) -> None:
    result = python(chainer, tmp_path, str(chainer.files["/train_mnist.py"]), *words)
    assert result.returncode != 0
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_an_empty_mnist_directory_is_an_error(chainer: Environment, tmp_path: Path) -> None:
    script = str(chainer.files["/train_mnist.py"])
    result = python(chainer, tmp_path, script, MNIST_DIR=str(tmp_path))
    assert result.returncode == 1
    assert f"MNIST_DIR={tmp_path}: neither train.npz nor train-images" in result.stderr


def test_the_environment_is_complete_and_consistent(chainer: Environment, tmp_path: Path) -> None:
    result = python(chainer, tmp_path, "-m", "pip", "check", PIP_DISABLE_PIP_VERSION_CHECK="1")
    assert result.stdout == "No broken requirements found.\n", result.stdout


def test_oldest_and_newest_python(cache: Path, tmp_path: Path) -> None:
    """The oldest and newest of the catalog's Python versions on this machine work."""
    found = []
    for version in ("3.10", "3.11", "3.12", "3.13", "3.14"):
        with contextlib.suppress(InterpreterNotFoundError):
            asyncio.run(find_interpreter([version]))
            found.append(version)
    assert found, sys.version
    for version in sorted({found[0], found[-1]}):
        own = tmp_path / "own.yaml"
        own.write_text(
            "environments:\n"
            f'- {{name: mine, from: chainermn, images: [me/mine], python: "{version}"}}\n'
        )
        environment = pull(cache, "me/mine", [own])
        script = str(environment.files["/examples/train_digits.py"])
        result = python(environment, tmp_path, script, "-e", "8", "--require-accuracy", "0.9")
        assert (result.returncode, result.stderr) == (0, ""), version
        old = str(environment.files["/train_mnist.py"])
        result = python(environment, tmp_path, old, *["-e", "2", "-b", "50", "-u", "50"])
        assert (result.returncode, result.stderr) == (0, ""), version


# -- over three hosts --------------------------------------------------------------------------


@pytest.mark.parametrize("network", [True, False], ids=["network", "loopback only"])
def test_digits_on_three_hosts(hosts: Hosts, network: bool) -> None:
    script = hosts.file("/examples/train_digits.py")
    result = mpi(hosts, "python3", script, "--require-accuracy", "0.95", network=network)
    assert result.returncode == 0, result.stdout
    assert result.stdout.startswith("3 process(es), 479 images each, 360 to validate\n")
    assert float(ACCURACY.findall(result.stdout)[-1]) >= 0.95


def test_the_command_line_of_the_known_example(hosts: Hosts) -> None:
    command = (
        "--allow-run-as-root --display-map --mca mpi_cuda_support 0 "
        f"python3 {hosts.file('/train_mnist.py')} -e 2 -b 1000 -u 100"
    )
    result = mpi(hosts, *command.split())
    assert result.returncode == 0, result.stdout
    for rank, host in enumerate(("job-master", "job-worker-0", "job-worker-1")):
        assert re.search(rf"node: {host}\b.*\n.*Process rank: {rank}\b", result.stdout)
    assert "so training on scikit-learn's 1797 bundled 8x8 digits instead" in result.stdout
    assert "processes: 3, communicator: naive, device: @numpy, units: 100" in result.stdout
    assert [int(number) for number, _ in EPOCH.findall(result.stdout)] == [1, 2]
    assert (hosts.directory / "result/log").exists()


def test_train_mnist_learns_on_three_hosts(hosts: Hosts) -> None:
    command = f"python3 {hosts.file('/train_mnist.py')} -e 40 -b 30 -u 100 --communicator naive"
    result = mpi(hosts, *command.split())
    assert result.returncode == 0, result.stdout
    log = json.loads((hosts.directory / "result/log").read_text())
    assert log[-1]["validation/main/accuracy"] >= 0.95


def test_a_communicator_for_gpus_is_replaced_with_a_message(hosts: Hosts) -> None:
    command = f"python3 {hosts.file('/train_mnist.py')} -e 1 -b 100 -u 10 --communicator pure_nccl"
    result = mpi(hosts, *command.split())
    assert result.returncode == 0, result.stdout
    assert "communicator: naive, because pure_nccl needs GPUs" in result.stdout


def test_ranks_are_not_bound_to_one_processor(hosts: Hosts) -> None:
    # One write per line: output of ranks without buffering would be interleaved.
    script = "import os; print(f'usable {len(os.sched_getaffinity(0))}\\n', end='')"
    result = hosts.run("mpiexec", "-n", "2", "-N", "1", "python3", "-c", script)
    here = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    assert result.stdout == here * 2


def test_a_rank_that_fails_ends_the_job_with_its_code(hosts: Hosts) -> None:
    script = (
        "import sys, time; from mpi4py import MPI\n"
        "if MPI.COMM_WORLD.rank == 1: MPI.COMM_WORLD.Abort(7)\n"
        "MPI.COMM_WORLD.barrier()"
    )
    assert mpi(hosts, "python3", "-c", script).returncode == 7


def test_an_error_in_one_rank_aborts_all(hosts: Hosts) -> None:
    """Its traceback is printed, and the other ranks do not wait for ever."""
    script = (
        "import chainermn; from mpi4py import MPI\n"
        "chainermn.global_except_hook.add_hook()\n"
        "if MPI.COMM_WORLD.rank == 2: raise ValueError('no such data')\n"
        "MPI.COMM_WORLD.barrier()"
    )
    result = mpi(hosts, "python3", "-c", script)
    assert result.returncode != 0
    # Python writes the line in parts, and mpiexec says between them that it ends all ranks.
    assert "ValueError" in result.stdout
    assert ": no such data\n" in result.stdout


@pytest.mark.parametrize("victim", ["daemon", "rank"])
def test_a_lost_worker_fails_the_job(hosts: Hosts, victim: str) -> None:
    script = (
        "import os, time; from mpi4py import MPI\n"
        "MPI.COMM_WORLD.barrier()\n"
        # One write: print writes several times, interleaved with other ranks.
        "text = f'rank {MPI.COMM_WORLD.rank} {os.getpid()} {os.getppid()}\\n'\n"
        "os.write(1, text.encode())\n"
        "time.sleep(600)"
    )
    process = hosts.start("mpiexec", "-n", "3", "-N", "1", "python3", "-c", script)
    assert process.stdout is not None
    pids: dict[int, int] = {}
    while len(pids) < 3:
        line = process.stdout.readline()
        assert line, "mpiexec ended early"
        if line.startswith("rank "):
            rank, own, parent = map(int, line.split()[1:])
            pids[rank] = parent if victim == "daemon" else own
    subprocess.run(["kill", f"-{signal.SIGKILL}", str(pids[2])], check=True)
    started = time.monotonic()
    process.communicate(timeout=120)
    assert process.returncode not in {0, None}
    assert time.monotonic() - started < 60
