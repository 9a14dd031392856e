"""Devices of containers whose root is a container image: specifications and NVIDIA's driver."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from local.node.machine_image import image_of, machine_layer
from local.node.support import CAPABILITIES, World, node_world, shell
from traincrew.local.node.containers.devices import device_edits, device_variables
from traincrew.local.node.fields.downward import FieldError
from traincrew.local.node.machine.cdi import CdiError, Edits, FileMount, Registry, wanted
from traincrew.local.node.machine.driver import LIBRARIES, driver_files
from traincrew.local.node.machine.gpus import Gpu, GpuAllocator
from traincrew.local.node.machine.specs import NodeSpec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

Document = dict[str, Any]


def specification(library: Path, **edits: Any) -> Document:
    return {
        "cdiVersion": "0.6.0",
        "kind": "vendor.example/abacus",
        "devices": [
            {
                "name": "one",
                "containerEdits": {
                    "deviceNodes": [{"path": "/dev/abacus1", "hostPath": "/dev/null"}],
                    "env": ["ABACUS_DEVICE=1"],
                },
            }
        ],
        "containerEdits": {
            "env": ["ABACUS=yes", "ABACUS_DEVICE=none"],
            "mounts": [
                {
                    "hostPath": str(library),
                    "containerPath": "/usr/lib/abacus/libabacus.so.1",
                    "options": ["ro", "nosuid", "bind"],
                }
            ],
            "hooks": [
                {
                    "hookName": "createContainer",
                    "path": "/usr/bin/nvidia-cdi-hook",
                    "args": [
                        "nvidia-cdi-hook",
                        "create-symlinks",
                        "--link",
                        "libabacus.so.1::/usr/lib/abacus/libabacus.so",
                    ],
                },
                {
                    "hookName": "createContainer",
                    "path": "/usr/bin/nvidia-cdi-hook",
                    "args": ["nvidia-cdi-hook", "update-ldcache", "--folder", "/usr/lib/abacus"],
                },
                {"hookName": "createContainer", "path": "/usr/bin/calibrate"},
            ],
            **edits,
        },
    }


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    library = tmp_path / "libabacus.so.1"
    library.write_text("counts\n")
    found = tmp_path / "cdi"
    found.mkdir()
    (found / "abacus.json").write_text(json.dumps(specification(library)))
    return found


@pytest.fixture
async def world(tmp_path: Path, directory: Path) -> AsyncIterator[World]:
    layer = machine_layer(tmp_path / "layer")
    async with node_world(tmp_path / "node", device_specifications=(directory,)) as world:
        world.images.environment = image_of(layer)
        yield world


needs_overlay = pytest.mark.skipif(
    not (CAPABILITIES.namespaces and CAPABILITIES.overlay), reason="no overlays here"
)


@needs_overlay
async def test_a_pod_gets_the_devices_that_it_names(world: World) -> None:
    script = """
        test -c /dev/abacus1 && cat /dev/abacus1
        cat /usr/lib/abacus/libabacus.so
        echo $ABACUS $ABACUS_DEVICE $LD_LIBRARY_PATH
        echo x 2>/dev/null >>/usr/lib/abacus/libabacus.so.1 || echo read-only
    """
    named = {"cdi.k8s.io/abacus": "vendor.example/abacus=one"}
    text = await world.result(script, annotations=named)
    assert text == "counts\nyes 1 /usr/lib/abacus\nread-only\n"
    message = (await world.event("NotEmulated"))["message"]
    assert "/usr/bin/calibrate: hooks of CDI are not run" in message


@needs_overlay
async def test_a_device_that_is_not_there_is_named(world: World) -> None:
    named = {"cdi.k8s.io/abacus": "vendor.example/abacus=two"}
    await world.pod({"containers": [shell("main", "true")]}, annotations=named)

    def told(status: Document) -> bool:
        return "vendor.example/abacus=two" in status["state"].get("waiting", {}).get("message", "")

    found = await world.container(told)
    assert found["state"]["waiting"]["reason"] == "CreateContainerConfigError"


def test_annotations_name_devices() -> None:
    annotations = {
        "cdi.k8s.io/b": "v.example/c=3",
        "cdi.k8s.io/a": "v.example/c=1, v.example/c=2",
        "other": "v.example/c=4",
    }
    assert wanted(annotations) == ["v.example/c=1", "v.example/c=2", "v.example/c=3"]


def test_the_later_directory_counts(directory: Path, tmp_path: Path) -> None:
    later = tmp_path / "later"
    later.mkdir()
    (later / "abacus.yaml").write_text(
        "kind: vendor.example/abacus\ndevices:\n- name: one\n  containerEdits:\n    env: [X=2]\n"
    )
    registry = Registry((directory, later, tmp_path / "missing"))
    assert registry.edits(["vendor.example/abacus=one"]) == Edits(variables={"X": "2"})
    assert registry.names("vendor.example/abacus") == ["one"]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"{", "abacus.json:2: not valid YAML"),
        (b"[]", "it: must be an object"),
        (b"\xff\xfe", "it has to be UTF-8 text"),
        (b"kind: nonsense", "kind: must be VENDOR/CLASS"),
        (b"kind: v.example/abacus\ndevices: 3", "devices: must be a list"),
        (b"kind: v.example/abacus\ndevices: [{name: '../x'}]", "devices[0].name: must be a name"),
        (b"x" * (1024 * 1024 + 1), "it has more than 1 MiB"),
    ],
)
def test_specifications_that_are_wrong(directory: Path, content: bytes, text: str) -> None:
    (directory / "abacus.json").write_bytes(content)
    registry = Registry((directory,))
    with pytest.raises(CdiError, match=re.escape(text)) as caught:
        registry.edits(["v.example/abacus=one"])
    assert str(caught.value).startswith("unresolvable CDI device v.example/abacus=one: ")
    assert registry.names("v.example/abacus") == []


@pytest.mark.parametrize(
    ("edits", "text"),
    [
        ({"env": ["X"]}, "env[0]: must be NAME=VALUE"),
        ({"env": [3]}, "env[0]: must be a text"),
        ({"mounts": [{"hostPath": "/x", "containerPath": "y"}]}, "must be an absolute path"),
        ({"mounts": [{"hostPath": "/x", "containerPath": "/y/../z"}]}, "must be an absolute path"),
        ({"deviceNodes": ["/dev/x"]}, "deviceNodes[0]: must be an object"),
        ({"hooks": [{"path": 3}]}, "hooks[0].path: must be a text"),
        ({"mounts": [{}] * 1001}, "mounts: must be a list of at most 1000 entries"),
    ],
)
def test_edits_that_are_wrong(directory: Path, edits: Document, text: str) -> None:
    (directory / "abacus.json").write_text(json.dumps(specification(directory, **edits)))
    with pytest.raises(CdiError, match=re.escape(text)):
        Registry((directory,)).edits(["vendor.example/abacus=one"])


@pytest.fixture
def gpus() -> GpuAllocator:
    return GpuAllocator((NodeSpec("a", gpus=4),), (Gpu(0, "GPU-a"), Gpu(1, "GPU-b")))


@pytest.mark.parametrize("names", [("0", "1", "all"), ("GPU-a", "GPU-b")])
def test_allocated_gpus_are_those_of_the_specification(
    directory: Path, gpus: GpuAllocator, names: tuple[str, ...]
) -> None:
    devices = [{"name": name, "containerEdits": {"env": [f"GPU={name}"]}} for name in names]
    content = {"kind": "nvidia.com/gpu", "devices": devices}
    (directory / "nvidia.json").write_text(json.dumps(content))
    # The nodes offer four, so that the fourth is the second again.
    edits = device_edits(Registry((directory,)), gpus, [3], {})
    assert edits.variables == {"GPU": names[1]}
    assert device_edits(Registry((directory,)), gpus, [], {}) == Edits()


def test_wrong_specifications_are_an_error_of_the_pod(directory: Path, gpus: GpuAllocator) -> None:
    with pytest.raises(FieldError, match=re.escape("unresolvable CDI device x.example/y=z")):
        device_edits(Registry((directory,)), gpus, [], {"cdi.k8s.io/x": "x.example/y=z"})


def test_the_drivers_files_without_a_specification(tmp_path: Path) -> None:
    libraries, programs = tmp_path / "lib", tmp_path / "bin"
    libraries.mkdir()
    programs.mkdir()
    (libraries / "libcuda.so.550.1").touch()
    (libraries / "libcuda.so.1").symlink_to("libcuda.so.550.1")
    (libraries / "libcudart.so.12").touch()
    (programs / "nvidia-smi").write_bytes(b"\x7fELF")
    wrappers = tmp_path / "wrappers"
    wrappers.mkdir()
    (wrappers / "nvidia-smi").write_text("#!/bin/sh\nexec nvidia-smi\n")
    found = (str(wrappers), str(programs))
    edits = driver_files((str(tmp_path / "none"), str(libraries)), found)
    assert edits.mounts == (
        FileMount(f"{libraries}/libcuda.so.550.1", f"{LIBRARIES}/libcuda.so.550.1", read_only=True),
        FileMount(f"{programs}/nvidia-smi", "/usr/local/nvidia/bin/nvidia-smi", read_only=True),
    )
    assert edits.links == {f"{LIBRARIES}/libcuda.so.1": "libcuda.so.550.1"}
    assert driver_files((str(tmp_path / "none"),)) == Edits()
    variables = device_variables(edits, {"LD_LIBRARY_PATH": f"/opt/lib:{LIBRARIES}"})
    assert variables == {"LD_LIBRARY_PATH": f"{LIBRARIES}:/opt/lib"}


def test_pretended_gpus_have_no_driver(directory: Path) -> None:
    pretended = GpuAllocator((NodeSpec("a", gpus=1),))
    assert device_edits(Registry((directory,)), pretended, [0], {}) == Edits()
