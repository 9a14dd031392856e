"""Files that containers wrote outside of volumes: counted at their end, and copied on request."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from local.node.support import DEADLINE, node_world, shell
from local.node.test_sandbox import Sandboxes, needs_namespaces
from traincrew.local.node import PodOptions
from traincrew.local.node.runtime.forkserver import ForkServer
from traincrew.local.node.runtime.processes import Collect, Mount, Report
from traincrew.local.node.volumes.claims import volume_claim_directory

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def sandboxes(tmp_path: Path) -> AsyncIterator[Sandboxes]:
    server = ForkServer(tmp_path, together=True)
    yield Sandboxes(tmp_path, server)
    server.close()
    assert (tmp_path / "forkserver.log").read_text() == ""


async def written(
    sandboxes: Sandboxes, script: str, *mounts: Mount, collect: tuple[Collect, ...] = (),
    **options: Any,
) -> dict[str, Any]:  # fmt: skip
    report = Report(("default", "p", "main"), list(collect))
    instance, _ = await sandboxes.start("sh", "-c", script, mounts=mounts, report=report, **options)
    await asyncio.wait_for(instance.wait(), DEADLINE)
    answer = json.loads((instance.directory / "written.json").read_text())
    assert answer["container"] == ["default", "p", "main"]
    return dict(answer)


@needs_namespaces
@pytest.mark.parametrize("overlay", [True, False])
async def test_what_was_written_is_counted(
    sandboxes: Sandboxes, tmp_path: Path, overlay: bool
) -> None:
    original = tmp_path / "original"
    original.write_text("x" * 100)
    (tmp_path / "volume").mkdir()
    mounts = (
        Mount("copy", "/image/untouched", str(original)),
        Mount("copy", "/image/changed", str(original)),
        Mount("file", "/etc/hostname", content="name\n"),
        Mount("bind", "/volume", str(tmp_path / "volume")),
    )
    nothing = await written(sandboxes, "true", *mounts, overlay=overlay)
    assert (nothing["files"], nothing["paths"], nothing["complete"]) == (0, [], True)
    some = await written(
        sandboxes,
        """
        printf 12345 > /single; printf 678 > /tmp/temporary
        mkdir -p /result/deep/er /image/__pycache__
        printf 1 > /result/a; printf 22 > /result/deep/er/b
        printf 55555 >> /image/changed; printf 1 > /image/__pycache__/x.pyc
        printf 1 > /volume/not-counted; ln -s /single /link; mkfifo /pipe
        mkdir -p /tmp/tagged/below; printf 1 > /tmp/tagged/below/x
        echo "Signature: 8a477f597d28d172789f06886806bc55" > /tmp/tagged/CACHEDIR.TAG
        """,
        *mounts,
        overlay=overlay,
    )
    expected = {
        "/single": [1, 5],
        "/tmp/temporary": [1, 3],
        "/result": [2, 3],
        "/image": [1, 105],
    }
    assert {path: count for path, *count in some["paths"]} == expected
    assert (some["files"], some["bytes"], some["complete"]) == (5, 116, True)


@needs_namespaces
@pytest.mark.skipif(
    not os.access("/usr/share", os.W_OK), reason="this user may not write to /usr/share"
)
async def test_files_of_the_machine_that_were_changed_count(sandboxes: Sandboxes) -> None:
    answer = await written(sandboxes, "printf 1 > /usr/share/traincrew-new; rm /usr/share/info -rf")
    assert answer["paths"] == [["/usr/share/traincrew-new", 1, 1]]


@needs_namespaces
async def test_counting_is_bounded(sandboxes: Sandboxes) -> None:
    script = (
        "mkdir /many; cd /many; python3 -c 'for i in range(21000): open(str(i), \"w\").close()'"
    )
    answer = await written(sandboxes, script)
    assert not answer["complete"]
    assert 0 < answer["files"] <= 20_000
    assert [path for path, *_ in answer["paths"]] == ["/many"]


@needs_namespaces
async def test_many_paths_are_merged(sandboxes: Sandboxes) -> None:
    script = "cd /tmp; for i in $(seq 30); do echo > file$i; done; echo > /other"
    answer = await written(sandboxes, script)
    assert answer["files"] == 31
    assert sorted((path, count) for path, count, _ in answer["paths"]) == [
        ("/other", 1),
        ("/tmp", 30),
    ]


@needs_namespaces
@pytest.mark.parametrize("overlay", [True, False])
async def test_a_path_is_copied(sandboxes: Sandboxes, tmp_path: Path, overlay: bool) -> None:
    image, volume = tmp_path / "image", tmp_path / "volume"
    image.mkdir()
    volume.mkdir()
    (image / "train.py").write_text("unchanged")
    (volume / "elsewhere").symlink_to("/etc")
    to = tmp_path / "to"
    collect = (
        Collect("/work", str(to / "work")),
        Collect("/work/out/one", str(to / "single")),
        Collect("/missing", str(to / "missing")),
        Collect("/tmp", str(to / "tmp")),
        Collect("/volume/deep", str(to / "volume"), source=str(volume), below="deep"),
        Collect("/volume/elsewhere", str(to / "x"), source=str(volume), below="elsewhere/hosts"),
    )
    answer = await written(
        sandboxes,
        """
        set -e
        cd /work; test -f train.py; mkdir out || mkdir -p /tmp/out
        printf 1 > out/one; chmod 700 out/one; ln -s one out/link; printf 22 > two
        mkdir -p /volume/deep/er; printf 333 > /volume/deep/er/three; printf 1 > /tmp/x
        """,
        Mount("overlay", "/work", str(image)) if overlay
        else Mount("copy", "/work/train.py", str(image / "train.py")),
        Mount("bind", "/volume", str(volume)),
        collect=collect,
        overlay=overlay,
    )  # fmt: skip
    counts = {each["path"]: (each["files"], each["bytes"], bool(each["problem"]))
              for each in answer["collected"]}  # fmt: skip
    assert counts == {
        "/work": (2, 3, False),
        "/work/out/one": (1, 1, False),
        "/missing": (0, 0, False),
        "/tmp": (1, 1, False),
        "/volume/deep": (1, 3, False),
        "/volume/elsewhere": (0, 0, False),
    }
    found = {str(path.relative_to(to)) for path in to.rglob("*") if not path.is_dir()}
    assert found == {
        "work/out/one", "work/out/link", "work/two", "single/one", "tmp/x", "volume/er/three",
    }  # fmt: skip
    assert (to / "work/out/one").stat().st_mode & 0o777 == 0o700
    assert (to / "work/out/link").readlink() == Path("one")


@needs_namespaces
@pytest.mark.parametrize(("left", "copied"), [(1000, 3), (5, 2), (0, 0)])
async def test_everything_is_copied_as_far_as_a_budget_allows(
    sandboxes: Sandboxes, tmp_path: Path, left: int, copied: int
) -> None:
    budget, to = tmp_path / "budget", tmp_path / "to"
    budget.write_text(str(left))
    answer = await written(
        sandboxes,
        "mkdir -p /result /result/.cache; printf 12 > /result/a; printf 345 > /result/b;"
        " printf 1234567890 > /result/c; printf 1 > /result/.cache/x",
        collect=(Collect("/", str(to), budget=str(budget)),),
    )
    (copy,) = answer["collected"]
    assert (copy["files"], bool(copy["problem"])) == (copied, copied < 3)
    assert int(budget.read_text()) == max(0, left - 15)
    found = [path.read_text() for path in to.rglob("*") if path.is_file()]
    assert len(found) == copied
    assert sum(map(len, found)) == copy["bytes"] <= left


@needs_namespaces
async def test_a_killed_container_is_reported_too(sandboxes: Sandboxes, tmp_path: Path) -> None:
    script = "printf 1 > /result; echo; sleep 100"
    collect = [Collect("/result", str(tmp_path / "to"))]
    report = Report(("default", "p", "main"), collect)
    instance, _ = await sandboxes.start("sh", "-c", script, report=report)
    while not instance.log.exists() or not instance.log.stat().st_size:
        await asyncio.sleep(0.01)
    instance.kill()
    await asyncio.wait_for(instance.wait(), DEADLINE)
    assert json.loads((instance.directory / "written.json").read_text())["files"] == 1
    assert (tmp_path / "to" / "result").read_text() == "1"


async def test_a_program_that_does_not_start(sandboxes: Sandboxes) -> None:
    report = Report(("default", "p", "main"))
    with pytest.raises(Exception, match="no such file"):
        await sandboxes.start("/does/not/exist", report=report)


@needs_namespaces
async def test_the_node_reports_what_pods_wrote_and_keeps_claims_by_name(tmp_path: Path) -> None:
    options = PodOptions(
        collect=(("/result", tmp_path / "staging"), ("/scratch/x", tmp_path / "staging2")),
        claims=tmp_path / "out",
    )
    async with node_world(tmp_path / "state", pods=options) as world:
        for name in ("data", "unused"):
            await world.claim(name)
        mounts = [{"name": "c", "mountPath": "/c"}, {"name": "s", "mountPath": "/scratch"}]
        volumes = [
            {"name": "c", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "s", "emptyDir": {}},
        ]
        ends = "printf 1 > /c/one; printf 22 > /result; printf 1 > /scratch/x"
        runs = "printf 333 > /result; echo; sleep 100"
        await world.pod(
            {
                "restartPolicy": "Never",
                "containers": [shell("main", ends, volumeMounts=mounts)],
                "volumes": volumes,
            },
            name="ends",
        )
        await world.phase("Succeeded", name="ends")
        await world.pod(runs, name="runs")
        await world.ready("runs")
        await world.output("runs")
        await world.delete_claim("unused")
        await world.node.stop(kill=True)
        written = {report.container[1]: report for report in world.node.written()}
        claims = await world.node.claim_contents()
    assert written["ends"].paths == [("/result", 1, 2)]
    assert [each.files for each in written["ends"].collected] == [1, 1]
    assert written["runs"].paths == [("/result", 1, 3)]
    assert [claim[1:] for claim in claims if claim.name == "data"] == [
        ("data", tmp_path / "out" / "data", 1, 1, True)
    ]
    assert (tmp_path / "out" / "data" / "one").read_text() == "1"
    staged = tmp_path / "staging" / "default"
    assert (staged / "ends" / "main" / "0" / "result").read_text() == "22"
    assert (staged / "runs" / "main" / "0" / "result").read_text() == "333"
    assert (tmp_path / "staging2" / "default" / "ends" / "main" / "0" / "x").read_text() == "1"


async def test_claims_of_other_namespaces_have_distinct_names(tmp_path: Path) -> None:
    options = PodOptions(claims=tmp_path, claims_namespace="team")
    assert volume_claim_directory(tmp_path / "n", options, "team", "a", "u") == tmp_path / "a"
    assert (
        volume_claim_directory(tmp_path / "n", options, "other", "a", "u") == tmp_path / "a@other"
    )
    own = volume_claim_directory(tmp_path / "n", PodOptions(), "team", "a", "u")
    assert own == tmp_path / "n" / "team" / "u"
