"""Pods as processes, through the real API server."""

from __future__ import annotations

import asyncio
import base64
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from local.node.support import World, condition, node_world, shell
from traincrew.engine.resources import CONFIG_MAPS, EVENTS, PODS, SECRETS, SERVICE_ACCOUNTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with node_world(tmp_path / "node") as world:
        yield world


async def test_runs_a_pod_to_success(world: World) -> None:
    text = await world.result("echo hello; hostname; cat /etc/hostname; echo oops >&2")
    assert sorted(text.splitlines()) == ["hello", "oops", "p", "p"]
    status = await world.status()
    state = status["containerStatuses"][0]["state"]["terminated"]
    assert (state["exitCode"], state["reason"]) == (0, "Completed")
    assert condition(status, "Ready") == "False"


async def test_a_failed_pod_reports_its_exit_code(world: World) -> None:
    await world.pod("exit 7")
    status = await world.phase("Failed")
    state = status["containerStatuses"][0]["state"]["terminated"]
    assert (state["exitCode"], state["reason"]) == (7, "Error")


async def test_a_killed_program_ends_with_its_signal(world: World) -> None:
    # The first process of a container cannot kill itself. ($$ stands for $ in a command.)
    await world.pod("sh -c 'kill -9 $$$$'; exit $?")
    status = await world.phase("Failed")
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137


async def test_init_containers_run_first_and_in_order(world: World) -> None:
    mount = {"name": "work", "mountPath": "/work/here"}
    await world.pod(
        {
            "restartPolicy": "Never",
            "volumes": [{"name": "work", "emptyDir": {}}],
            "initContainers": [
                shell("one", "echo one >> /work/here/log", volumeMounts=[mount]),
                shell("two", "echo two >> /work/here/log", volumeMounts=[mount]),
            ],
            "containers": [shell("main", "cat /work/here/log", volumeMounts=[mount])],
        }
    )
    status = await world.phase("Succeeded")
    assert await world.logs() == "one\ntwo\n"
    assert [each["ready"] for each in status["initContainerStatuses"]] == [True, True]
    assert condition(status, "Initialized") == "True"


async def test_a_failed_init_container_fails_the_pod(world: World) -> None:
    await world.pod(
        {
            "restartPolicy": "Never",
            "initContainers": [shell("first", "exit 3")],
            "containers": [shell("main", "true")],
        }
    )
    status = await world.phase("Failed")
    assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    assert status["containerStatuses"][0]["state"]["waiting"]["reason"] == "PodInitializing"
    assert condition(status, "Initialized") == "False"


async def test_a_crashing_container_is_restarted_and_backs_off(world: World) -> None:
    await world.pod({"containers": [shell("main", "echo run; exit 1")]})
    shown = await world.container(
        lambda each: (each["state"].get("waiting") or {}).get("reason") == "CrashLoopBackOff"
    )
    assert shown["restartCount"] == 1
    assert "back-off 10s restarting failed container=main" in shown["state"]["waiting"]["message"]
    assert shown["lastState"]["terminated"]["exitCode"] == 1
    assert (await world.status())["phase"] == "Running"
    assert await world.logs() == "run\n"
    assert await world.logs(previous=True) == "run\n"
    await world.event("BackOff")


async def test_on_failure_ends_with_the_first_success(world: World) -> None:
    mount = {"name": "state", "mountPath": "/state"}
    await world.pod(
        {
            "restartPolicy": "OnFailure",
            "volumes": [{"name": "state", "emptyDir": {}}],
            "containers": [
                shell(
                    "main",
                    "test -e /state/once && exit 0; touch /state/once; exit 1",
                    volumeMounts=[mount],
                )
            ],
        }
    )
    status = await world.phase("Succeeded")
    assert status["containerStatuses"][0]["restartCount"] == 1


async def test_a_program_that_does_not_exist(world: World) -> None:
    container = {"name": "main", "image": "any:1", "command": ["no-such-program"]}
    await world.pod({"restartPolicy": "Never", "containers": [container]})
    status = await world.phase("Failed")
    state = status["containerStatuses"][0]["state"]["terminated"]
    assert (state["exitCode"], state["reason"]) == (128, "StartError")
    assert state["message"] == 'exec: "no-such-program": executable file not found in $PATH'


async def test_an_unknown_image(world: World) -> None:
    container = {"name": "main", "image": "unknown:1", "command": ["true"]}
    await world.pod({"containers": [container]})
    shown = await world.container(
        lambda each: (each["state"].get("waiting") or {}).get("reason") == "ErrImagePull"
    )
    assert shown["state"]["waiting"]["message"] == "no environment is defined for unknown:1"
    assert (await world.status())["phase"] == "Pending"
    await world.event("BackOff")
    events = (await world.client.list(EVENTS, "default"))["items"]
    messages = {event["message"] for event in events if event["reason"] == "Failed"}
    assert messages >= {
        'Failed to pull image "unknown:1": no environment is defined for unknown:1',
        "Error: ErrImagePull",
    }
    assert {event["source"]["component"] for event in events} == {"kubelet"}
    await world.client.delete(PODS, "p", "default")
    await world.gone()


async def test_a_missing_key_is_named_and_may_come_later(world: World) -> None:
    reference = {"configMapKeyRef": {"name": "settings", "key": "speed"}}
    env = [{"name": "SPEED", "valueFrom": reference}]
    await world.pod(
        {"restartPolicy": "Never", "containers": [shell("main", "echo $SPEED", env=env)]}
    )
    shown = await world.container(
        lambda each: (
            (each["state"].get("waiting") or {}).get("reason") == "CreateContainerConfigError"
        )
    )
    assert shown["state"]["waiting"]["message"] == 'configmap "settings" not found'
    await world.create(CONFIG_MAPS, {"metadata": {"name": "settings"}, "data": {"other": "1"}})
    await world.container(
        lambda each: (
            (each["state"].get("waiting") or {}).get("message")
            == "couldn't find key speed in ConfigMap default/settings"
        )
    )
    await world.client.patch(CONFIG_MAPS, "settings", "default", patch={"data": {"speed": "fast"}})
    await world.phase("Succeeded")
    assert await world.logs() == "fast\n"


async def test_a_missing_volume_source_is_named_and_may_come_later(world: World) -> None:
    await world.pod(
        {
            "restartPolicy": "Never",
            "volumes": [{"name": "keys", "secret": {"secretName": "keys"}}],
            "containers": [
                shell(
                    "main",
                    "cat /keys/id; stat -L -c %a /keys/id",
                    volumeMounts=[{"name": "keys", "mountPath": "/keys"}],
                )
            ],
        }
    )
    event = await world.event("FailedMount")
    assert (
        event["message"] == 'MountVolume.SetUp failed for volume "keys" : secret "keys" not found'
    )
    shown = await world.container(lambda each: (each["state"].get("waiting") or {}).get("message"))
    assert "secret" in shown["state"]["waiting"]["message"]
    await world.create(
        SECRETS, {"metadata": {"name": "keys"}, "data": {"id": base64.b64encode(b"x\n").decode()}}
    )
    await world.phase("Succeeded")
    assert await world.logs() == "x\n644\n"


async def test_pods_of_a_new_namespace_wait_silently_for_its_objects(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The namespace counts as new, however slow the machine is.
    monkeypatch.setattr("traincrew.local.node.pods.mounting._CONTROLLERS_SECONDS", 60.0)
    await world.client.delete(SERVICE_ACCOUNTS, "default", "default")
    await world.pod("cat /var/run/secrets/kubernetes.io/serviceaccount/namespace")
    await world.container(lambda each: each["state"].get("waiting"))
    await world.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default"}})
    certificates = {"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": "none"}}
    await world.create(CONFIG_MAPS, certificates)
    await world.phase("Succeeded")
    assert await world.logs() == "default"
    events = (await world.client.list(EVENTS, "default"))["items"]
    assert "FailedMount" not in {event["reason"] for event in events}


async def test_volumes_of_all_kinds(world: World, tmp_path: Path) -> None:
    host = tmp_path / "host"
    await world.create(CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "1", "b": "2"}})
    spec = {
        "restartPolicy": "Never",
        "volumes": [
            {"name": "all", "configMap": {"name": "c", "defaultMode": 0o555}},
            {"name": "items", "configMap": {"name": "c", "items": [{"key": "a", "path": "x/y"}]}},
            {"name": "host", "hostPath": {"path": str(host), "type": "DirectoryOrCreate"}},
            {"name": "memory", "emptyDir": {"medium": "Memory"}},
            {
                "name": "me",
                "projected": {
                    "sources": [
                        {
                            "downwardAPI": {
                                "items": [
                                    {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
                                ]
                            }
                        },
                        {"serviceAccountToken": {"path": "token"}},
                    ]
                },
            },
        ],
        "containers": [
            shell(
                "main",
                """
                set -e
                ls /kubeflow/all; stat -L -c %a /kubeflow/all/a
                cat /items/x/y; echo; cat /one; echo
                echo written > /host/sub/file; echo x > /memory/file; cat /memory/file
                cat /me/labels; echo; test -s /me/token
                ! touch /kubeflow/all/new 2> /dev/null
                echo private > /usr/private; cat /usr/private
                """,
                volumeMounts=[
                    {"name": "all", "mountPath": "/kubeflow/all"},
                    {"name": "items", "mountPath": "/items"},
                    {"name": "all", "mountPath": "/one", "subPath": "a"},
                    {"name": "host", "mountPath": "/host"},
                    {"name": "memory", "mountPath": "/memory"},
                    {"name": "me", "mountPath": "/me"},
                    {"name": "host", "mountPath": "/host/sub", "subPathExpr": "$(NAME)"},
                ],
                env=[{"name": "NAME", "value": "sub-of-p"}],
            )
        ],
    }
    text = await world.result(spec, labels={"a": "b"})
    assert text.split() == ["a", "b", "555", "1", "1", "x", 'a="b"', "private"]
    assert (host / "sub-of-p" / "file").read_text() == "written\n"
    assert not Path("/usr/private").exists()


async def test_mounted_objects_follow_the_api(world: World) -> None:
    await world.create(CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "old"}})
    mount = {"name": "c", "mountPath": "/c"}
    # As with the kubelet, the old version may disappear between lookup and open.
    script = "while :; do cat /c/a 2> /dev/null && echo; sleep 0.02; done"
    await world.pod(
        {
            "volumes": [{"name": "c", "configMap": {"name": "c"}}],
            "containers": [shell("main", script, volumeMounts=[mount])],
        }
    )
    await world.ready()

    async def seen(word: str) -> bool:
        return word in await world.logs(tail=1)

    await world.until(partial(seen, "old"))
    await world.client.patch(CONFIG_MAPS, "c", "default", patch={"data": {"a": "new"}})
    await world.until(partial(seen, "new"))
    assert set((await world.logs()).split()) == {"old", "new"}


async def test_environment_variables_of_all_kinds(world: World) -> None:
    await world.create(CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"KEY": "value"}})
    env = [
        {"name": "A", "value": "1"},
        {"name": "B", "value": "$(A)-$(P_KEY)-$$(A)-$(NONE)"},
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {
            "name": "MIB",
            "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}},
        },
    ]
    container = {
        "name": "main",
        "image": "any:1",
        "command": ["sh", "-c"],
        "args": ['echo "$0" $A $B $NAME $IP $NODE $MIB; env', "$(NAME)"],
        "env": env,
        "envFrom": [{"prefix": "P_", "configMapRef": {"name": "c"}}],
        "resources": {"limits": {"memory": "64Mi"}},
    }
    text = await world.result({"restartPolicy": "Never", "containers": [container]})
    first, *variables = text.splitlines()
    ip = (await world.status())["podIP"]
    assert first == f"p 1 1-value-$(A)-$(NONE) p {ip} local 64"
    assert not any(each.startswith("KUBECONFIG") for each in variables)
    assert not any(each.startswith("KUBERNETES_") for each in variables)


async def test_a_pod_runs_as_the_requested_user(world: World) -> None:
    await world.create(CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "1"}})
    script = """
    set -e
    id -u; id -g; id -G
    touch /data/mine; stat -c %u /data/mine; cat /c/a; echo
    test -w /dev/termination-log; echo $HOME; id -un
    """
    mounts = [{"name": "data", "mountPath": "/data"}, {"name": "c", "mountPath": "/c"}]
    text = await world.result(
        {
            "restartPolicy": "Never",
            "securityContext": {"runAsUser": 4711, "runAsGroup": 42, "fsGroup": 815},
            "volumes": [
                {"name": "data", "emptyDir": {}},
                {"name": "c", "configMap": {"name": "c", "defaultMode": 0o440}},
            ],
            "containers": [shell("main", script, volumeMounts=mounts)],
        }
    )
    uid, gid, groups, owner, content, home, name = text.splitlines()
    assert (uid, gid, owner, content, home) == ("4711", "42", "4711", "1", "/")
    assert name == "pod"  # this machine knows no such user, and programs such as ssh refuse them
    if os.geteuid() == 0:
        assert groups.split() == ["42", "815"]
    else:
        assert "fsGroup" in (await world.event("NotEmulated"))["message"]


async def test_run_as_non_root_is_enforced(world: World) -> None:
    context = {"runAsNonRoot": True, "runAsUser": 0}
    container = shell("main", "id -u", securityContext=context)
    await world.pod({"restartPolicy": "Never", "containers": [container]})
    shown = await world.container(
        lambda each: (
            (each["state"].get("waiting") or {}).get("reason") == "CreateContainerConfigError"
        )
    )
    message = shown["state"]["waiting"]["message"]
    assert message.startswith("container's runAsUser breaks non-root policy")


async def test_pods_have_addresses_of_their_own(world: World) -> None:
    await world.pod({"containers": [shell("main", "sleep 100")]}, "other")
    address = (await world.ready("other"))["podIP"]
    text = await world.result(
        {
            "restartPolicy": "Never",
            "hostAliases": [{"ip": "10.1.2.3", "hostnames": ["far"]}],
            "containers": [
                shell(
                    "main",
                    "for name in $(hostname) far; do getent hosts $name | cut -d' ' -f1; done",
                )
            ],
        }
    )
    own = (await world.status())["podIP"]
    assert text.split() == [own, "10.1.2.3"]
    assert own != address
    assert own.startswith("127.")


async def test_deletion_is_graceful_and_complete(world: World) -> None:
    script = 'trap "echo bye; exit 0" TERM; echo ready; while :; do sleep 0.05; done'
    hook = {"preStop": {"exec": {"command": ["sh", "-c", "echo hook >> /tmp/hook"]}}}
    await world.pod({"containers": [shell("main", script, lifecycle=hook)]})
    await world.ready()
    assert await world.output() == "ready\n"  # and the trap is set
    uid = (await world.get() or {})["metadata"]["uid"]
    follow = asyncio.create_task(world.logs(follow=True))
    await world.client.delete(PODS, "p", "default")
    assert (await follow).splitlines()[-1] == "bye"
    await world.gone()

    async def cleaned() -> bool:
        return not (world.state / "pods" / uid).exists()

    await world.until(cleaned, "directory of the pod removed")
    await world.event("Killing")


async def test_a_program_that_ignores_sigterm_is_killed_after_the_grace_period(
    world: World,
) -> None:
    await world.pod({"containers": [shell("main", "sleep 1000")]})
    await world.ready()
    await world.client.delete(PODS, "p", "default", grace_period=1)
    await world.gone()


async def test_deletion_during_init_containers(world: World) -> None:
    init = shell("init", "sleep 1000")
    await world.pod({"initContainers": [init], "containers": [shell("main", "true")]})

    async def initialising() -> bool:
        statuses = (await world.status()).get("initContainerStatuses") or [{"state": {}}]
        return "running" in statuses[0]["state"]

    await world.until(initialising)
    assert (await world.status())["phase"] == "Pending"
    await world.client.delete(PODS, "p", "default", grace_period=1)
    await world.gone()


async def test_a_shorter_grace_period_wins(world: World) -> None:
    await world.pod(
        {"containers": [shell("main", "sleep 1000")], "terminationGracePeriodSeconds": 600}
    )
    await world.ready()
    await world.client.delete(PODS, "p", "default")
    await world.event("Killing")
    await world.client.delete(PODS, "p", "default", grace_period=1)
    await world.gone()


async def test_a_forced_deletion_leaves_nothing(world: World) -> None:
    await world.pod({"containers": [shell("main", "sleep 12345")]})
    await world.ready()
    await world.client.delete(PODS, "p", "default", grace_period=0)
    await world.gone()

    async def ended() -> bool:
        return not any("sleep 12345" in line for line in _command_lines())

    await world.until(ended)
    await world.until(lambda: _is_empty(world.state / "pods"))


async def _is_empty(directory: Path) -> bool:
    return not list(directory.iterdir())


async def test_sidecars_end_last_when_a_pod_is_deleted(world: World, tmp_path: Path) -> None:
    def container(name: str, **more: object) -> dict[str, object]:
        script = (
            f'trap "echo {name} >> /out/order; exit" TERM; touch /out/listens-{name}; '
            "while :; do sleep 0.02; done"
        )
        mounts = [{"name": "out", "mountPath": "/out"}]
        return shell(name, script, volumeMounts=mounts, **more)

    await world.pod(
        {
            "volumes": [{"name": "out", "hostPath": {"path": str(tmp_path)}}],
            "initContainers": [
                container("first", restartPolicy="Always"),
                container("second", restartPolicy="Always"),
            ],
            "containers": [container("main")],
        }
    )
    await world.ready()

    async def all_listen() -> bool:
        return len(list(tmp_path.glob("listens-*"))) == 3

    await world.until(all_listen)
    await world.client.delete(PODS, "p", "default")
    await world.gone()
    assert (tmp_path / "order").read_text().split() == ["main", "second", "first"]


async def test_a_deadline_ends_a_pod(world: World) -> None:
    spec = {"containers": [shell("main", "exec sleep 100")], "activeDeadlineSeconds": 1}
    await world.pod({**spec, "terminationGracePeriodSeconds": 0})
    status = await world.phase("Failed")
    assert status["reason"] == "DeadlineExceeded"
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137


async def test_sidecars_start_before_and_end_after_the_others(world: World) -> None:
    sidecar = shell(
        "side",
        'trap "echo stopped; exit 0" TERM; echo started; while :; do sleep 0.05; done',
        restartPolicy="Always",
    )
    await world.pod(
        {
            "restartPolicy": "Never",
            "initContainers": [sidecar, shell("after", "true")],
            "containers": [shell("main", "exit 0")],
        }
    )
    await world.phase("Succeeded")
    assert await world.logs(container="side") == "started\nstopped\n"


async def test_termination_messages(world: World) -> None:
    await world.pod(
        {
            "restartPolicy": "Never",
            "containers": [
                shell("file", "echo -n because > /dev/termination-log; exit 1"),
                shell(
                    "log",
                    "echo the end; exit 1",
                    terminationMessagePolicy="FallbackToLogsOnError",
                ),
            ],
        }
    )
    status = await world.phase("Failed")
    states = [each["state"]["terminated"]["message"] for each in status["containerStatuses"]]
    assert states == ["because", "the end\n"]


async def test_fields_without_effect_are_reported_once(world: World) -> None:
    await world.pod(
        {
            "restartPolicy": "Never",
            "containers": [
                shell(
                    "main",
                    "true",
                    securityContext={"privileged": True},
                    resources={"limits": {"cpu": "1"}},
                )
            ],
        }
    )
    event = await world.event("NotEmulated")
    assert event["type"] == "Warning"
    assert "spec.containers[0].securityContext.privileged" in event["message"]
    assert "spec.containers[0].resources.limits.cpu" in event["message"]
    assert event["count"] == 1


async def test_a_container_above_its_memory_limit_is_killed(world: World) -> None:
    script = "python3 -c 'x = bytearray(200 << 20); import time; time.sleep(100)'"
    container = shell("main", script, resources={"limits": {"memory": "50Mi"}})
    await world.pod({"restartPolicy": "Never", "containers": [container]})
    status = await world.phase("Failed")
    state = status["containerStatuses"][0]["state"]["terminated"]
    assert (state["exitCode"], state["reason"]) == (137, "OOMKilled")
    await world.event("OOMKilling")


async def test_nothing_outlives_the_first_process(world: World, tmp_path: Path) -> None:
    volumes = [{"name": "host", "hostPath": {"path": str(tmp_path)}}]
    mount = {"name": "host", "mountPath": "/out"}
    # Long enough not to end by itself, and with an argument that no other test run has.
    late = f"sleep 20; echo {tmp_path} > /out/late"
    script = f"setsid sh -c 'echo $$$$ > /out/started; {late}' & "
    script += "while ! test -s /out/started; do :; done"
    container = shell("main", script, volumeMounts=[mount])
    await world.result({"restartPolicy": "Never", "volumes": volumes, "containers": [container]})
    assert not (tmp_path / "late").exists()
    assert late not in " ".join(_command_lines())


def _command_lines() -> list[str]:
    lines = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                data = Path(f"/proc/{entry.name}/cmdline").read_bytes()
                lines.append(data.replace(b"\0", b" ").decode())
            except OSError:
                continue
    return lines
