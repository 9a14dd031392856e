"""Containers whose root is a container image."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from local.node.machine_image import image_of, machine_layer
from local.node.support import CAPABILITIES, World, node_world, shell
from traincrew.local.filelocks import try_lock
from traincrew.local.images.oci.files import read_file

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.skipif(
    not (CAPABILITIES.namespaces and CAPABILITIES.overlay), reason="no overlays here"
)


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return machine_layer(tmp_path_factory.mktemp("layers") / "machine")


@pytest.fixture
async def world(tmp_path: Path, layer: Path) -> AsyncIterator[World]:
    async with node_world(tmp_path / "node") as world:
        world.images.environment = image_of(layer)
        yield world


async def test_nothing_of_the_machine_is_in_it(world: World, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of this machine")
    script = f"ls -a /; ls /usr /home /root /run; cat {secret} {Path(__file__)}; ls -a /proc/1/cwd"
    await world.pod(script)
    await world.phase("Failed", "Succeeded")
    text = await world.logs()
    first = text.partition("ls:")[0].split()
    libraries = {"lib", "lib64", "usr"}
    assert set(first) - libraries <= {
        ".", "..", "bin", "dev", "etc", "proc", "run", "srv", "sys", "tmp",
        "/run:", "traincrew", "/usr:",
    }  # fmt: skip
    assert "of this machine" not in text


async def test_the_user_the_variables_and_the_directory_are_the_images(
    world: World, layer: Path
) -> None:
    world.images.environment = image_of(
        layer,
        user="trainer",
        variables={"PATH": "/bin", "GREETING": "from the image", "MODE": "image"},
        working_directory="/work",
        command=["sh", "-c"],
        arguments=['id -u; id -g; id -G; echo "$HOME $PWD $GREETING $MODE"; env'],
    )
    container = {"name": "main", "image": "any:1", "env": [{"name": "MODE", "value": "pod"}]}
    lines = (await world.result({"containers": [container], "restartPolicy": "Never"})).splitlines()
    groups = "100 107" if os.getuid() == 0 else "100"
    assert lines[:3] == ["1000", "100", groups]
    assert lines[3] == "/home/trainer /work from the image pod"
    assert "PATH=/bin" in lines
    assert not any("traincrew" in line for line in lines)


async def test_what_a_container_writes_is_its_own(world: World, layer: Path) -> None:
    script = "rm /etc/group; echo changed > /etc/passwd; mkdir /data; touch /data/new; ls /data"
    assert await world.result(script) == "new\n"
    assert (layer / "etc/group").exists()
    assert "trainer" in (layer / "etc/passwd").read_text()
    assert await world.result("ls -d /data /etc/group 2>&1 || true", "q") == (
        "ls: cannot access '/data': No such file or directory\n/etc/group\n"
    )


async def test_layers_delete_and_replace_what_is_below(
    world: World, layer: Path, tmp_path: Path
) -> None:
    upper = tmp_path / "upper"
    for name in ("etc", "tmp"):
        (upper / name).mkdir(parents=True)
    try:
        os.mknod(upper / "etc/group", 0o600 | 0o020000, os.makedev(0, 0))
        os.setxattr(upper / "tmp", "user.overlay.opaque", b"y")
    except PermissionError:
        pytest.skip("only root may make what stands for a deleted file")
    if os.getuid() == 0:
        os.setxattr(upper / "tmp", "trusted.overlay.opaque", b"y")
    (upper / "etc/motd").write_text("welcome\n")
    lower = tmp_path / "lower"
    (lower / "tmp").mkdir(parents=True)
    (lower / "tmp/old").touch()
    world.images.environment = image_of(layer, lower, upper)
    assert await world.result("ls /etc /tmp") == (
        "/etc:\nhostname\nhosts\nmotd\npasswd\nresolv.conf\n\n/tmp:\n"
    )
    layers = (layer, lower, upper)
    assert read_file(layers, "/etc/motd", 100) == b"welcome\n"
    assert read_file(layers, "/etc/group", 100) is None
    assert read_file(layers, "/tmp/old", 100) is None
    assert read_file((layer, lower), "/tmp/old", 100) == b""


async def test_hundreds_of_layers(world: World, layer: Path, tmp_path: Path) -> None:
    layers = []
    for number in range(300):
        layers.append(tmp_path / f"layer-{number}" / ("x" * 60))
        layers[-1].mkdir(parents=True)
        (layers[-1] / "last").write_text(f"{number}\n")
    world.images.environment = image_of(layer, *layers)
    assert await world.result("cat /last") == "299\n"


async def test_links_of_an_image_lead_nowhere_else(
    world: World, layer: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    # The names that the node mounts or writes at, each as a link to a directory of the machine.
    for name in ("dev", "proc", "sys", "run", "home"):
        (hostile / name).symlink_to(outside)
    (hostile / "etc").symlink_to(f"/../../../..{outside}")
    (hostile / "var").symlink_to("/.machine")
    world.images.environment = image_of(layer, hostile, working_directory="/home/work")
    text = await world.result(
        {
            "containers": [
                shell(
                    "main",
                    "ls -d /dev/null /proc/1 /sys; cat /etc/hostname; echo $PWD; touch /run/x",
                    volumeMounts=[{"name": "scratch", "mountPath": "/home/scratch"}],
                )
            ],
            "volumes": [{"name": "scratch", "emptyDir": {}}],
            "restartPolicy": "Never",
        }
    )
    assert text == f"/dev/null\n/proc/1\n/sys\np\n{outside}/work\n"
    assert list(outside.iterdir()) == []


async def test_devices_are_those_of_any_container(world: World) -> None:
    names = set((await world.result("ls /dev")).split())
    usual = {"full", "null", "random", "tty", "urandom", "zero"}
    own = {"fd", "mqueue", "ptmx", "pts", "shm", "stderr", "stdin", "stdout"}
    assert usual | own <= names | {"tty"}
    accelerators = ("nvidia", "dri", "kfd", "infiniband", "accel")
    assert not {name for name in names - usual - own if not name.startswith(accelerators)} - {
        "termination-log"
    }


async def test_a_read_only_root_keeps_the_volumes_of_the_image_writable(
    world: World, layer: Path
) -> None:
    world.images.environment = image_of(layer, volumes=("/srv",))
    script = "touch /srv/new && ls /srv; touch /etc/new 2>/dev/null || echo refused"
    container = shell("main", script, securityContext={"readOnlyRootFilesystem": True})
    text = await world.result({"containers": [container], "restartPolicy": "Never"})
    assert text == "new\nrefused\n"
    assert list((layer / "srv").iterdir()) == []


async def test_the_stop_signal_is_the_images(world: World, layer: Path) -> None:
    world.images.environment = image_of(layer, stop_signal="SIGUSR1")
    script = "trap 'echo asked; exit 3' USR1; echo ready; while :; do sleep 0.05; done"
    await world.pod(script, finalizers=["test/hold"])
    await world.phase("Running")
    await world.output()
    await world.delete()
    end = await world.container(lambda status: "terminated" in status["state"])
    assert end["state"]["terminated"]["exitCode"] == 3


async def test_status_and_events_name_the_image(world: World) -> None:
    await world.result("true")
    status = await world.status()
    assert status["containerStatuses"][0]["imageID"] == f"docker.io/me/train@sha256:{'1' * 64}"
    message = (await world.event("Pulled"))["message"]
    assert message.endswith(". Using image sha256:111111111111, 7 MB")


@pytest.mark.parametrize(
    ("settings", "reason", "text"),
    [
        ({"user": "nobody"}, "CreateContainerError", "unable to find user nobody"),
        ({"command": ["/no/program"]}, "StartError", 'exec: "/no/program": stat /no/program'),
        ({"command": ["/etc"]}, "StartError", 'exec: "/etc": permission denied'),
        ({"command": ["/etc/passwd"]}, "StartError", 'exec: "/etc/passwd": permission denied'),
        ({}, "CreateContainerError", "no command specified"),
    ],
)
async def test_images_that_cannot_run(
    world: World, layer: Path, settings: dict[str, object], reason: str, text: str
) -> None:
    world.images.environment = image_of(layer, **settings)
    await world.pod({"containers": [{"name": "main", "image": "any:1"}], "restartPolicy": "Never"})

    def told(status: dict[str, object]) -> bool:
        state = status["state"]
        assert isinstance(state, dict)
        said = state.get("waiting") or state.get("terminated") or {}
        return said.get("reason") == reason and text in said.get("message", "")

    await world.container(told)


async def test_a_container_holds_its_image_while_it_runs(
    world: World, layer: Path, tmp_path: Path
) -> None:
    place = tmp_path / "image"
    place.mkdir()
    world.images.environment = image_of(layer, place=place)
    await world.pod("sleep 1000", finalizers=["test/hold"])
    await world.phase("Running")

    def held() -> bool:
        descriptor = os.open(place, os.O_RDONLY)
        try:
            return not try_lock(descriptor)
        finally:
            os.close(descriptor)

    assert held()
    await world.delete()
    await world.container(lambda status: "terminated" in status["state"])

    async def released() -> bool:
        return not held()

    await world.until(released, "the image is not held")
