"""Pods of stored container images, beside the same pod with an environment.

From the create of a pod until it is Running, in turns on one embedded cluster, without any pull: an
image of 20 MB, one of 2 GB, and the tools of this machine. Prints the ratio of each image to the
environment (goal 1.2), and a hundred pods of one image at once.

    python -m benchmarks image_starts
"""

import argparse
import platform
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hack.cluster.images import write_image
from hack.libraries import libraries_of

import traincrew
from traincrew.local.directories import default_cache
from traincrew.local.images.oci.platforms import platform_of

ROUNDS = 20
GOAL_RATIO = 1.2
GOAL_SECONDS = 0.5
MANY = 100
DEADLINE = 60.0
ANNOTATION = "traincrew.dev/image-source"


def programs() -> Iterator[Path]:
    """Yield a shell, `sleep`, and the libraries that they need."""
    found = [path for name in ("sh", "sleep") if (path := shutil.which(name)) is not None]
    yield from map(Path, found)
    yield from libraries_of(found)


def archive(directory: Path, name: str, megabytes: int) -> Path:
    """Write an image with these programs and one large file, as `docker save` does."""
    layer = directory / "layer.tar"
    with tarfile.open(layer, "w") as tar:
        for path in programs():
            at = f"bin/{path.name}" if path.suffix == "" and "lib" not in path.parts else str(path)
            tar.add(path.resolve(), at.lstrip("/"))
        header = tarfile.TarInfo("data")
        header.size = megabytes * 1_000_000
        with Path("/dev/urandom").open("rb") as noise:
            tar.addfile(header, noise)
    target = directory / "image.tar"
    architecture = platform_of(platform.machine()).architecture
    write_image(target, name, layer, {"Env": ["PATH=/bin"]}, architecture=architecture)
    layer.unlink()
    return target


def pod(name: str, image: str, source: str) -> dict[str, Any]:
    """Return a pod that sleeps."""
    container = {"name": "main", "image": image, "command": ["sleep", "1000"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {ANNOTATION: source}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "containers": [container],
        },
    }


def seconds_to_running(client: Any, name: str, image: str, source: str) -> float:
    """Create a pod, and return how long it takes until it is Running."""
    started = time.perf_counter()
    client.create(pod(name, image, source))
    while client.get("pods", name).get("status", {}).get("phase") != "Running":
        if time.perf_counter() - started > DEADLINE:
            raise TimeoutError(str(client.get("pods", name).get("status")))
        time.sleep(0.001)
    taken = time.perf_counter() - started
    client.delete("pods", name)
    return taken


def main() -> None:
    """Measure, and print the medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--megabytes", type=int, default=2000, help="of the large image")
    options = parser.parse_args()
    large = options.megabytes
    images = {"20 MB": ("bench/small:1", 20), f"{large} MB": ("bench/large:1", large)}
    command = [sys.executable, "-m", "traincrew.cli", "images"]
    with tempfile.TemporaryDirectory() as scratch:
        for name, size in images.values():
            made = archive(Path(scratch), name, size)
            subprocess.run([*command, "import", str(made)], check=True)
            made.unlink()
    try:
        with traincrew.LocalCluster(training=False) as cluster:
            client = cluster.client
            turns = {"environment": ("busybox:1", "environment")}
            turns |= {what: (name, "image") for what, (name, _) in images.items()}
            taken: dict[str, list[float]] = {what: [] for what in turns}
            for number in range(options.rounds + 1):
                for index, (what, (image, source)) in enumerate(turns.items()):
                    found = seconds_to_running(client, f"pod-{index}-{number}", image, source)
                    if number:  # the first ones warm up
                        taken[what].append(found)
            base = statistics.median(taken["environment"])
            for what, all_of_them in taken.items():
                median = statistics.median(all_of_them)
                ratio = median / base
                good = ratio <= GOAL_RATIO and median <= GOAL_SECONDS
                print(
                    f"{what:12} {median * 1000:6.1f} ms, {ratio:.2f} of an environment"
                    f"{'' if good else '  OVER THE GOAL'}"
                )
            started = time.perf_counter()
            for number in range(MANY):
                client.create(pod(f"many-{number}", images["20 MB"][0], "image"))
            while any(
                each.get("status", {}).get("phase") != "Running" for each in client.list("pods")
            ):
                time.sleep(0.05)
            print(f"{MANY} pods of one image: {time.perf_counter() - started:.1f} s")
    finally:
        names = [name for name, _ in images.values()]
        subprocess.run([*command, "remove", *names], check=True)
        print(f"(images were stored in {default_cache()} meanwhile)")


if __name__ == "__main__":
    main()
