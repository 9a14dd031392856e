"""Real GPUs, through the embedded cluster: who gets them, who does not, and training on them.

It needs a machine with an NVIDIA GPU. `TRAINCREW_GPU_PYTHON` names a Python that has PyTorch with
CUDA, for a machine without a network; otherwise the environment `traincrew/torch` is built. Needs
nothing of the other suites:

    python -m pytest --noconftest -c /dev/null suites/gpu
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from suites.gpu.image import NAME, write_image

import traincrew
from traincrew.local.node import count_gpus
from traincrew.local.node.machine.driver import LIBRARIES, driver_files
from traincrew.local.node.machine.gpus import machine_gpus

# Set where a suite that could not have a GPU must not count as passed.
REQUIRE = "TRAINCREW_REQUIRE_GPU"
PYTHON = "TRAINCREW_GPU_PYTHON"
IMAGE = "traincrew/torch"
PROGRAM = Path(__file__).parent / "train.py"
MINUTES = 4 * 60.0

if not (there := count_gpus()):
    if os.environ.get(REQUIRE):
        raise RuntimeError("this machine has no NVIDIA GPU, or no nvidia-smi")
    pytest.skip("this machine has no NVIDIA GPU", allow_module_level=True)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The environment of the pods, with the program in it."""
    directory = tmp_path_factory.mktemp("catalog")
    python = os.environ.get(PYTHON)
    source = f"python: {python}" if python else "from: torch"
    catalog = directory / "environments.yaml"
    catalog.write_text(
        f"environments:\n- name: gpu\n  images: [{IMAGE}]\n  {source}\n"
        f"  files: {{/app/train.py: {PROGRAM}}}\n"
    )
    return catalog


def job(
    name: str, *arguments: str, workers: int = 1, gpus: int = 1, command: list[str] | None = None
) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": "elasticjob-worker",
        "image": IMAGE,
        "command": command or ["python3", "-m", "torch.distributed.run"],
        "args": [] if command else ["--rdzv_conf=last_call_timeout=1", "/app/train.py", *arguments],
    }
    if gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": gpus}}
    return {
        "apiVersion": "elastic.pytorch.org/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": name},
        "spec": {
            "minReplicas": workers,
            "maxReplicas": workers,
            "replicaSpecs": {
                "Worker": {
                    "replicas": workers,
                    "restartPolicy": "ExitCode",
                    "template": {"spec": {"containers": [container]}},
                }
            },
        },
    }


def run(manifest: Any, catalog: Path, **options: Any) -> traincrew.Outcome:
    return traincrew.run(manifest, images=[str(catalog)], timeout=MINUTES, **options)


def model() -> str:
    program = shutil.which("nvidia-smi")
    assert program is not None
    asked = [program, "--query-gpu=name", "--format=csv,noheader"]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.splitlines()[0]


def test_the_driver_lists_as_many_as_nvidia_smi() -> None:
    assert len(machine_gpus()) == there


def test_a_job_trains_by_nccl_on_the_gpu_that_it_asks_for(catalog: Path) -> None:
    outcome = run(job("one"), catalog)

    assert outcome.succeeded, outcome.logs
    assert f"cuda 1 files nvidia{machine_gpus()[0].minor}" in outcome.logs
    assert f"rank 0 of 1: nccl on {model()}" in outcome.logs
    assert "trained from" in outcome.logs
    losses = [value for _, value in outcome.metrics["loss"]]
    assert losses == sorted(losses, reverse=True)


def test_a_job_that_asks_for_none_has_none_whatever_its_variables_say(catalog: Path) -> None:
    program = "import os; os.environ.pop('CUDA_VISIBLE_DEVICES', None); "
    program += "exec(open('/app/train.py').read())"
    command = ["python3", "-c", program, "--probe"]
    outcome = run(job("none", gpus=0, command=command), catalog)

    assert outcome.succeeded, outcome.logs
    assert "cuda 0 files none" in outcome.logs


def test_two_jobs_share_the_gpus_of_the_machine_in_time(catalog: Path) -> None:
    outcome = run([job("first", gpus=there), job("second", gpus=there)], catalog)

    assert outcome.succeeded, outcome.logs
    assert "Insufficient nvidia.com/gpu" in "".join(outcome.warnings)
    assert outcome.logs.count("trained from") == 2
    said = [line for line in outcome.logs.splitlines() if re.search("rank 0 of|trained from", line)]
    owners = [line.partition("-worker")[0] for line in said]
    assert owners[0] == owners[1] != owners[2] == owners[3]


@pytest.mark.parametrize("backend", ["nccl", "gloo"])
def test_workers_share_a_gpu_if_more_are_offered_than_there_are(
    catalog: Path, backend: str, capfd: pytest.CaptureFixture[str]
) -> None:
    workers = 2 * there
    outcome = run(job("shared", f"--{backend}", workers=workers), catalog, gpus=workers)

    assert outcome.succeeded, outcome.logs
    assert f"this machine has {there}, so pods share" in "".join(capfd.readouterr())
    assert outcome.logs.count(f"of {workers}: {backend} on {model()}") == workers
    assert outcome.logs.count("trained from") == workers
    assert outcome.logs.count("cuda 1 files nvidia") == workers


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Import a container image with a CUDA program and nothing of the driver."""
    if shutil.which("nvcc") is None:
        if os.environ.get(REQUIRE):
            pytest.fail("no CUDA compiler (nvcc)", pytrace=False)
        pytest.skip("no CUDA compiler (nvcc)")
    archive = write_image(tmp_path_factory.mktemp("image"))
    command = [sys.executable, "-m", "traincrew.cli", "images", "import", str(archive)]
    subprocess.run(command, check=True)


def image_job(name: str, *command: str, gpus: int = 1) -> dict[str, Any]:
    found = job(name, gpus=gpus, command=list(command))
    template = found["spec"]["replicaSpecs"]["Worker"]["template"]
    template["spec"]["containers"][0]["image"] = NAME
    return found


def test_a_container_image_computes_on_the_gpu_that_it_asks_for(image: None) -> None:
    script = "compute && /usr/local/nvidia/bin/nvidia-smi -L"
    outcome = traincrew.run(image_job("compute", "sh", "-c", script), timeout=MINUTES)

    assert outcome.succeeded, outcome.logs
    assert f"devices 1 {model()} last 1048575: no error" in outcome.logs
    assert outcome.logs.count("(UUID: ") == 1


def test_a_container_image_that_asks_for_no_gpu_has_none(image: None) -> None:
    script = "compute; echo code $?; ls /usr/local/nvidia || echo no driver"
    outcome = traincrew.run(image_job("none", "sh", "-c", script, gpus=0), timeout=MINUTES)

    assert outcome.succeeded, outcome.logs
    assert "devices 0" in outcome.logs
    assert "code 3" in outcome.logs
    assert "no driver" in outcome.logs


def test_a_specification_of_devices_takes_the_place_of_the_driver(
    image: None,
) -> None:
    place = Path("/etc/cdi/traincrew-test.json")
    if os.geteuid() != 0:
        pytest.skip("only root writes /etc/cdi")
    mounts = [
        {"hostPath": each.source, "containerPath": each.target, "options": ["ro"]}
        for each in driver_files().mounts
    ]
    links = [f"{to}::{path}" for path, to in driver_files().links.items()]
    hooks = [
        {"hookName": "createContainer", "path": "/usr/bin/nvidia-cdi-hook", "args": arguments}
        for arguments in (
            ["nvidia-cdi-hook", "create-symlinks", *(f"--link={link}" for link in links)],
            ["nvidia-cdi-hook", "update-ldcache", "--folder", LIBRARIES],
        )
    ]
    devices = [
        {"name": str(index), "containerEdits": {"env": [f"BY_SPECIFICATION={index}"]}}
        for index in range(there)
    ]
    content = {
        "cdiVersion": "0.6.0",
        "kind": "nvidia.com/gpu",
        "devices": devices,
        "containerEdits": {"mounts": mounts, "hooks": hooks},
    }
    place.parent.mkdir(exist_ok=True)
    place.write_text(json.dumps(content))
    try:
        script = "compute && echo by $BY_SPECIFICATION"
        outcome = traincrew.run(image_job("described", "sh", "-c", script), timeout=MINUTES)
    finally:
        place.unlink()

    assert outcome.succeeded, outcome.logs
    assert f"devices 1 {model()} last 1048575: no error" in outcome.logs
    assert "by 0" in outcome.logs
