"""Cold pulls of container images from a registry on this machine, beside podman's.

Both fetch and unpack the same images from the same registry in turns, as root, each into an empty
directory on the same file system. An image of 20 MB, and one of about 1.5 GB, compressed by gzip:
many small files that compress well, some large ones that do not. Needs the Debian packages
docker-registry and podman:

    python -m benchmarks images
    python -m benchmarks images --rounds 5 --large 0
"""

import argparse
import contextlib
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from suites.container_images.registry import PROGRAM, Layer, Server, serving

from benchmarks._usage import peak_mebibytes

ROUNDS = 3
GOAL_RATIO = 1.0
GOAL_MEBIBYTES = 150
POLL_SECONDS = 0.01
PODMAN = shutil.which("podman")
WORDS = [
    b"import",
    b"return",
    b"self",
    b"lambda",
    b"None",
    b"tensor",
    b"gradient",
    b"shape",
    b"(",
    b")",
]


def text(randomness: random.Random, size: int) -> bytes:
    """Return bytes that compress about as well as the sources of programs."""
    chosen = randomness.choices(WORDS, k=size // 8)
    noise = randomness.randbytes(size // 8).hex().encode()
    return (b" ".join(chosen) + noise)[:size]


def layer(seed: int, small: int, large: int) -> Layer:
    """Return a layer.

    Args:
        seed: Of its content.
        small: Number of files of 2 to 40 kB.
        large: Number of files of 25 MB.
    """
    randomness = random.Random(seed)
    base = text(randomness, 1 << 20)
    files = {}
    for number in range(small):
        start = randomness.randrange(len(base) - 40_000)
        name = f"layer{seed}/package{number // 50}/module{number}.py"
        files[name] = base[start : start + randomness.randrange(2_000, 40_000)]
    for number in range(large):
        content = randomness.randbytes(13_000_000) + text(randomness, 12_000_000)
        files[f"layer{seed}/library{number}.so"] = content
    return Layer(files)


def ours(server: Server, name: str, place: Path) -> tuple[list[str], dict[str, str]]:
    """Return the command of a pull of traincrew, and its variables."""
    program = str(Path(sys.executable).with_name("traincrew"))
    command = [program, "images", "pull", "--from", "registry", f"{server.host}/{name}"]
    return command, {"TRAINCREW_CACHE": str(place)}


def podmans(server: Server, name: str, place: Path) -> tuple[list[str], dict[str, str]]:
    """Return the command of a pull of podman, and its variables."""
    options = ["--root", str(place / "root"), "--runroot", str(place / "run")]
    command = [str(PODMAN), *options, "--storage-driver", "overlay", "pull", "--quiet"]
    return [*command, "--tls-verify=false", f"{server.host}/{name}"], {}


def measured(command: list[str], variables: dict[str, str]) -> tuple[float, float]:
    """Return the seconds that a program takes, and its largest resident memory in MiB."""
    began = time.monotonic()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command, env={**os.environ, **variables}, stdout=output, stderr=output
        )
        peak = 0.0
        # What wait4 tells would begin with the memory of this process.
        while process.poll() is None:
            with contextlib.suppress(OSError):
                peak = max(peak, peak_mebibytes(process.pid))
            time.sleep(POLL_SECONDS)
        seconds = time.monotonic() - began
        if process.returncode:
            output.seek(0)
            raise SystemExit(f"{command}: {output.read().decode()}")
    return seconds, peak


def compare(server: Server, name: str, scratch: Path, rounds: int) -> None:
    """Print how long both take for an image."""
    figures: dict[str, list[tuple[float, float]]] = {"traincrew": [], "podman": []}
    for turn in range(rounds):
        for program, command in (("traincrew", ours), ("podman", podmans)):
            place = scratch / f"{program}-{turn}"
            place.mkdir()
            os.sync()  # what the one before has left to write is not this one's
            figures[program].append(measured(*command(server, name, place)))
            shutil.rmtree(place)
    seconds = {key: statistics.median(each[0] for each in found) for key, found in figures.items()}
    for program, found in figures.items():
        every = ", ".join(f"{each[0]:.2f}" for each in found)
        peak = max(each[1] for each in found)
        print(f"  {program:<10} {seconds[program]:6.2f} s  ({every})  peak memory {peak:.0f} MiB")
    ratio = seconds["traincrew"] / seconds["podman"]
    print(f"  ratio {ratio:.2f} (goal: {GOAL_RATIO}), memory (goal: {GOAL_MEBIBYTES} MiB)")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks images")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--large", type=int, default=8, help="layers of the large image")
    options = parser.parse_args()
    if PROGRAM is None or PODMAN is None or os.geteuid() != 0:
        print("needs root, and: apt-get install docker-registry podman")
        return
    with tempfile.TemporaryDirectory() as name, serving(Path(name)) as server:
        scratch = Path(name)
        images = {"small": [layer(1, 300, 0), layer(2, 200, 0), layer(3, 0, 1)]}
        if options.large:
            images["large"] = []
            for number in range(options.large):
                images["large"].append(layer(10 + number, 4000, 4))
        for image, layers in images.items():
            server.push(image, "1", layers)
            sent = sum(len(each.blob) for each in layers) / 1e6
            stored = sum(each.size for each in layers) / 1e6
            print(f"{image}: {len(layers)} layers, {sent:.0f} MB, unpacked {stored:.0f} MB")
            layers.clear()
            compare(server, f"{image}:1", scratch, options.rounds)
