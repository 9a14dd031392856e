"""`traincrew run --kubeconfig`: the job runs on another cluster, and is shown here."""

import os
import pty
import select
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.anycluster import DEADLINE, Embedded, embedded, read_until, script
from cli.programs import PROGRAM, until
from harness import CHAINER_JOBS
from traincrew.engine.client import Client
from traincrew.engine.errors import NotFoundError
from traincrew.engine.resources import CONFIG_MAPS, Resource

__all__ = ["embedded"]

SETTINGS = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"lr": "0.1"}}


def write(directory: Path, *documents: dict[str, Any]) -> str:
    path = directory / "job.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    return str(path)


def settings(name: str, **data: str) -> dict[str, Any]:
    return {**SETTINGS, "metadata": {"name": name}, "data": data or SETTINGS["data"]}


def exists(cluster: Embedded, resource: Resource, name: str) -> bool:
    async def look(client: Client) -> bool:
        try:
            found = await client.get(resource, name, "default")
        except NotFoundError:
            return False
        return "deletionTimestamp" not in found["metadata"]

    return cluster.ask(look)


def test_the_same_view_and_exit_code(embedded: Embedded, tmp_path: Path) -> None:
    fails = script("elsewhere", "echo no data at /data; sleep 1; exit 7")
    path = write(tmp_path, settings("elsewhere-settings"), fails)
    result = embedded("run", "-f", path, code=7)
    assert "ConfigMap elsewhere-settings created on context traincrew (https://127.0.0.1:" in (
        result.stdout
    )
    assert "elsewhere: Running" in result.stdout
    assert "| no data at /data\n" in result.stdout
    _, _, account = result.stdout.partition("ChainerJob elsewhere: Failed after")
    assert "container chainer: exit code 7" in account
    assert "cluster ready" not in result.stdout
    assert result.stderr == ""
    again = embedded("run", "-f", path, code=2)
    assert 'chainerjobs.kubeflow.org "elsewhere" already exists' in again.stderr


def test_detached_it_only_creates(embedded: Embedded, tmp_path: Path) -> None:
    path = write(tmp_path, script("one", "true"), script("two", "true"))
    result = embedded("run", "-f", path, "--detach")
    for name in ("one", "two"):
        see = f"traincrew watch chainerjob/{name} --kubeconfig {embedded.kubeconfig} -n default"
        assert f"ChainerJob {name} is still running. To follow it: {see}" in result.stdout
        embedded("watch", name)


def test_all_jobs_of_a_manifest_are_shown(embedded: Embedded, tmp_path: Path) -> None:
    """As on the embedded cluster: until all have ended, with the exit code of what failed."""
    path = write(
        tmp_path,
        script("all-well", "echo all is well; sleep 2"),
        script("all-wrong", "echo no data; exit 5"),
    )
    result = embedded("run", "-f", path, code=5)
    for printed in ("| all is well", "| no data"):
        assert result.stdout.count(f"{printed}\n") == 1
    for outcome in ("all-well: Succeeded", "all-wrong: Failed"):
        assert f"ChainerJob {outcome} after" in result.stdout


def test_an_interrupt_says_how_to_see_each_job(embedded: Embedded, tmp_path: Path) -> None:
    path = write(tmp_path, *(script(f"each-{n}", "echo begun; sleep 600") for n in (1, 2)))
    with embedded.start("run", "-f", path) as process:
        read_until(process, "| begun")
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=DEADLINE)
    assert process.returncode == 143
    for name in ("each-1", "each-2"):
        assert (
            f"ChainerJob {name} is still running. To follow it: traincrew watch chainerjob/{name}"
            in output
        )


def test_too_many_jobs_are_not_shown(embedded: Embedded, tmp_path: Path) -> None:
    path = write(tmp_path, *(script(f"many-{n}", "true") for n in range(17)))
    refused = embedded("run", "-f", path, code=2)
    assert "there are 17 jobs in the manifest, and at most 16 are shown" in refused.stderr
    assert not exists(embedded, CHAINER_JOBS, "many-0")


def test_a_job_of_kubernetes_itself(embedded: Embedded, tmp_path: Path) -> None:
    main = {"name": "main", "image": "busybox:1", "command": ["sh", "-c", "echo hi; exit 3"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [main]}}
    plain = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "plain"},
        "spec": {"backoffLimit": 0, "template": template},
    }
    result = embedded("run", "-f", write(tmp_path, plain), code=3)
    assert "| hi\n" in result.stdout
    assert "Job plain: Failed" in result.stdout
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [main]},
    }
    result = embedded("run", "-f", write(tmp_path, pod), code=2)
    assert "there is no job in the manifest" in result.stderr


def test_an_interrupt_without_a_terminal_leaves_the_job(embedded: Embedded, tmp_path: Path) -> None:
    path = write(tmp_path, settings("kept"), script("kept", "echo begun; exec sleep 600"))
    with embedded.start("run", "-f", path) as process:
        read_until(process, "| begun")
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=DEADLINE)
    assert process.returncode == 130
    assert (
        "Ended by Ctrl-C.\nChainerJob kept is still running. To follow it: traincrew watch"
        in output
    )
    assert f"kubectl delete chainerjobs.kubeflow.org/kept --kubeconfig {embedded.kubeconfig}" in (
        output
    )
    assert exists(embedded, CHAINER_JOBS, "kept")


def test_delete_on_interrupt_deletes_what_the_run_created(
    embedded: Embedded, tmp_path: Path
) -> None:
    embedded.create(settings("earlier"), CONFIG_MAPS)
    path = write(
        tmp_path, settings("earlier"), settings("new"), script("gone", "echo begun; sleep 600")
    )
    with embedded.start("run", "-f", path, "--delete-on-interrupt") as process:
        read_until(process, "| begun")
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=DEADLINE)
    assert process.returncode == 143
    assert "ChainerJob gone deleted\nConfigMap new deleted\n" in output
    assert not exists(embedded, CHAINER_JOBS, "gone")
    assert not exists(embedded, CONFIG_MAPS, "new")
    assert exists(embedded, CONFIG_MAPS, "earlier")


@pytest.mark.parametrize(("answer", "left"), [(b"y\n", False), (b"\n", True), (b"\x03", True)])
def test_ctrl_c_asks_on_a_terminal(
    embedded: Embedded, tmp_path: Path, answer: bytes, left: bool
) -> None:
    name = f"asked-{answer.hex()}"
    path = write(tmp_path, script(name, "echo begun; sleep 600"))
    ours, theirs = pty.openpty()
    line = [PROGRAM, "run", "--kubeconfig", str(embedded.kubeconfig), "-f", path]
    environment = {**os.environ, "NO_COLOR": "1", "TERM": "xterm"}
    with subprocess.Popen(
        line, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    ) as process:
        os.close(theirs)
        output = b""

        def shown(text: bytes) -> bool:
            nonlocal output
            if select.select([ours], [], [], 0.1)[0]:
                output += os.read(ours, 65536)
            return text in output

        until(lambda: shown(b"| begun"))
        process.send_signal(signal.SIGINT)
        until(lambda: shown(b"[y/N]"))
        if answer == b"\x03":
            process.send_signal(signal.SIGINT)
        else:
            os.write(ours, answer)
        until(lambda: shown(b"To delete it" if left else b"deleted"))
        assert process.wait(DEADLINE) == 130
    os.close(ours)
    assert exists(embedded, CHAINER_JOBS, name) is left


def test_nothing_is_created_of_a_manifest_with_an_invalid_job(
    embedded: Embedded, tmp_path: Path
) -> None:
    wrong = script("wrong", "true")
    wrong["spec"]["master"]["backofLimit"] = 1
    result = embedded("run", "-f", write(tmp_path, settings("first"), wrong), code=2)
    assert 'unknown field "spec.master.backofLimit"' in result.stderr
    assert not exists(embedded, CONFIG_MAPS, "first")


def test_objects_of_others_are_not_taken_over(embedded: Embedded, tmp_path: Path) -> None:
    embedded.create(settings("others", lr="0.5"), CONFIG_MAPS)
    path = write(tmp_path, settings("others"), script("takes", "true"))
    result = embedded("run", "-f", path, code=2)
    assert "conflict" in result.stderr
    assert not exists(embedded, CHAINER_JOBS, "takes")


def test_namespaces_are_not_created(embedded: Embedded, tmp_path: Path) -> None:
    path = write(tmp_path, script("there", "true"))
    result = embedded("run", "-f", path, "-n", "absent", code=2)
    assert 'namespaces "absent" not found' in result.stderr
