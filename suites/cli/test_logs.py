"""Logs of pods that run, with `traincrew logs`."""

import signal
from pathlib import Path
from typing import Any

from cli.anycluster import DEADLINE, Embedded, embedded, own_home, read_until, script

__all__ = ["embedded", "own_home"]

WORKER = """
echo first of $HOSTNAME
[ -e /kept/$HOSTNAME ] && echo second of $HOSTNAME && exec sleep 600
touch /kept/$HOSTNAME
until [ -e /kept/go ]; do sleep 0.05; done
exit 1
"""


def with_workers(name: str, directory: Path) -> dict[str, Any]:
    """A job whose two workers restart once, when there is a file `go` in the directory."""
    document = script(name, "echo master; sleep 600", 2)
    container = {
        "name": "chainer",
        "image": "busybox:1",
        "command": ["sh", "-c", WORKER],
        "volumeMounts": [{"name": "kept", "mountPath": "/kept"}],
    }
    volumes = [{"name": "kept", "hostPath": {"path": str(directory)}}]
    template = {"spec": {"containers": [container], "volumes": volumes}}
    document["spec"]["workerSets"]["ws0"]["template"] = template
    return document


def test_all_ranks_through_a_restart(embedded: Embedded, tmp_path: Path) -> None:
    embedded.create(with_workers("ranks", tmp_path))
    with embedded.start("logs", "-f", "ranks") as process:
        shown = ""
        for word in ("first", "second"):
            wanted = {f"{word} of ranks-workerset-ws0-{rank}" for rank in (0, 1)}
            while not wanted <= set(texts(shown)):
                shown += read_until(process, "| ")
            (tmp_path / "go").touch()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 130
    assert errors == ""
    lines = texts(shown)
    for rank in (0, 1):
        pod = f"ranks-workerset-ws0-{rank}"
        # Once before the restart, once after it.
        assert [line for line in lines if line.endswith(pod)] == [
            f"first of {pod}",
            f"first of {pod}",
            f"second of {pod}",
        ]
    assert all(line.startswith("ranks-") for line in shown.splitlines())

    without = embedded("logs", "ranks", "--previous", "--role", "master")
    assert without.stdout == ""
    assert without.stderr == "traincrew: no container of ChainerJob ranks has an earlier log\n"
    previous = embedded("logs", "ranks", "--previous").stdout
    assert sorted(texts(previous)) == [f"first of ranks-workerset-ws0-{rank}" for rank in (0, 1)]
    one = embedded("logs", "ranks", "--role", "WS0", "--rank", "1").stdout
    assert texts(one) == ["first of ranks-workerset-ws0-1", "second of ranks-workerset-ws0-1"]
    last = embedded("logs", "ranks", "--role", "ws0", "--tail", "1", "--timestamps").stdout
    stamps = [line.partition(" ")[0] for line in texts(last)]
    assert len(stamps) == 2
    assert stamps == sorted(stamps)
    assert all(stamp.endswith("Z") for stamp in stamps)
    result = embedded("logs", "ranks", "--role", "server", code=2)
    assert "--role server: ChainerJob ranks has master, ws0" in result.stderr
    result = embedded("logs", "ranks", "--rank", "7", code=2)
    assert "has no pod of this rank now" in result.stderr


def test_following_ends_with_the_job_and_cleans_what_it_prints(embedded: Embedded) -> None:
    text = r"printf 'a\033[2Jb\033[31mred\r\n'; sleep 1; printf 'half'; sleep 0.5; printf ' done'"
    embedded.create(script("clean", text))
    result = embedded("logs", "clean", "--follow")
    assert texts(result.stdout) == ["abred", "half done"]
    assert "\x1b" not in result.stdout
    assert texts(embedded("logs", "clean").stdout) == ["abred", "half done"]
    assert texts(embedded("logs", "clean", "--since", "1h").stdout) == ["abred", "half done"]
    result = embedded("logs", "clean", "-f", "-p", code=2)
    assert "mutually exclusive" in result.stderr


def texts(output: str) -> list[str]:
    return [line.partition(" | ")[2] for line in output.splitlines()]
