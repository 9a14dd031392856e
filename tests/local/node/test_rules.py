"""The pure functions of the node, by tables."""

from __future__ import annotations

import base64
import stat
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traincrew.engine.objects import AnyObject, FullObjectMeta
from traincrew.local.apiserver.http.node_backend import LogOptions
from traincrew.local.images import Environment, ImageRoot, UnknownUserError
from traincrew.local.images.environment import ImageUser
from traincrew.local.node.containers.identity import (
    Identity,
    RootRefusedError,
    container_identity,
    passwd_with,
    shadow_with,
)
from traincrew.local.node.containers.mounts import image_mounts, ordered, volume_mounts
from traincrew.local.node.containers.pulling import pull_policy
from traincrew.local.node.containers.restarts import BackOff, should_restart
from traincrew.local.node.containers.signals import signal_number
from traincrew.local.node.fields.downward import FieldError, PodFacts, field_value, resource_value
from traincrew.local.node.fields.environment import (
    NoCommandError,
    command_line,
    container_environment,
    expand,
    service_variables,
)
from traincrew.local.node.fields.references import MissingReferenceError, Reference, Sources
from traincrew.local.node.machine.gpus import Gpu, GpuAllocator, machine_gpus
from traincrew.local.node.machine.isolation import Isolation
from traincrew.local.node.machine.specs import NodeSpec
from traincrew.local.node.network.addresses import PodAddresses
from traincrew.local.node.network.hosts import (
    HostsFiles,
    PodName,
    hosts_text,
    kernel_host_name,
)
from traincrew.local.node.network.serviceproxy import Backend, Listener, listeners
from traincrew.local.node.pods.unsupported import unsupported, unsupported_service
from traincrew.local.node.records.nodeobjects import node_resources
from traincrew.local.node.runtime.logs import read_log, tail_of
from traincrew.local.node.runtime.processes import Mount
from traincrew.local.node.sources import SourceWatch
from traincrew.local.node.volumes.atomic_directory import write_directory
from traincrew.local.node.volumes.payloads import File, TokenRequest, token_requests, volume_files
from traincrew.local.node.volumes.podvolumes import VolumeError
from traincrew.local.quantity import parse

if TYPE_CHECKING:
    from pathlib import Path

Document = dict[str, Any]

POD: Document = {
    "metadata": {
        "name": "p",
        "namespace": "ns",
        "uid": "u",
        "labels": {"b": "2", "a": '1"'},
        "annotations": {"x/y": "z"},
    },
    "spec": {
        "nodeName": "local",
        "serviceAccountName": "sa",
        "containers": [
            {
                "name": "main",
                "resources": {
                    "limits": {"memory": "1Gi", "cpu": "1500m"},
                    "requests": {"cpu": "250m"},
                },
            },
            {"name": "bare"},
        ],
    },
}
FACTS = PodFacts(
    POD, pod_ip="127.42.0.9", host_ip="127.0.0.1", allocatable={"cpu": "4", "memory": "8Gi"}
)


# -- quantities -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("500m", "0.5"),
        ("2", "2"),
        ("1Ki", "1024"),
        ("1Gi", str(2**30)),
        ("1e3", "1000"),
        ("1.5k", "1500"),
        (3, "3"),
    ],
)
def test_quantities(text: str, number: str) -> None:
    assert parse(text) == parse(number)


@pytest.mark.parametrize("text", ["", "one", "1 Gi", "1mi", "--1", "1i", "1K", "1e3Mi", " 1"])
def test_invalid_quantities_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        parse(text)


# -- environment ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("plain", "plain"),
        ("$(A)", "1"),
        ("a$(A)b$(B)c", "a1b2c"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$(NONE)", "$(NONE)"),
        ("$A $ $", "$A $ $"),
        ("$(A", "$(A"),
        ("cost: 5$", "cost: 5$"),
        ("$(A)$(A", "1$(A"),
    ],
)
def test_expansion(text: str, result: str) -> None:
    assert expand(text, {"A": "1", "B": "2"}) == result


@given(st.text())
def test_expansion_without_variables_only_unescapes(text: str) -> None:
    assert expand(text.replace("$", "$$"), {}) == text


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "p"),
        ("metadata.namespace", "ns"),
        ("metadata.uid", "u"),
        ("metadata.labels['b']", "2"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['x/y']", "z"),
        ("metadata.labels", 'a="1\\""\nb="2"'),
        ("spec.nodeName", "local"),
        ("spec.serviceAccountName", "sa"),
        ("status.podIP", "127.42.0.9"),
        ("status.podIPs", "127.42.0.9"),
        ("status.hostIP", "127.0.0.1"),
    ],
)
def test_fields(path: str, value: str) -> None:
    assert field_value(FACTS, path) == value


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(FieldError, match=r"unsupported fieldPath: spec\.replicas"):
        field_value(FACTS, "spec.replicas")


@pytest.mark.parametrize(
    ("reference", "value"),
    [
        ({"resource": "limits.cpu"}, "2"),
        ({"resource": "limits.cpu", "divisor": "1m"}, "1500"),
        ({"resource": "requests.cpu"}, "1"),
        ({"resource": "limits.memory", "divisor": "1Mi"}, "1024"),
        ({"resource": "requests.memory"}, "0"),
        ({"resource": "limits.cpu", "containerName": "bare"}, "4"),
    ],
)
def test_resources(reference: Document, value: str) -> None:
    assert resource_value(FACTS, reference, POD["spec"]["containers"][0]) == value


def test_resources_of_unknown_containers_are_refused() -> None:
    with pytest.raises(FieldError, match="container nobody not found"):
        resource_value(FACTS, {"resource": "limits.cpu", "containerName": "nobody"}, None)


SOURCES = Sources(
    "ns",
    {
        Reference("ConfigMap", "c"): {
            "data": {"A": "from c", "B": "b", "bad=name": "x"},
            "binaryData": {"bin": base64.b64encode(b"\xff\0").decode()},
        },
        Reference("Secret", "s"): {"data": {"P": base64.b64encode(b"secret").decode()}},
        Reference("ConfigMap", "gone"): None,
    },
)


def environment(container: Document, **services: str) -> dict[str, str]:
    return container_environment(
        FACTS,
        container,
        SOURCES,
        image={"PATH": "/bin", "A": "image"},
        services=services,
        overrides={},
    )


def test_precedence_of_variables() -> None:
    container = {
        "envFrom": [{"configMapRef": {"name": "c"}}, {"prefix": "S_", "secretRef": {"name": "s"}}],
        "env": [{"name": "B", "value": "$(A), $(S_P), $(DB_PORT), $(PATH)"}],
    }
    result = environment(container, DB_PORT="1")
    assert result["A"] == "from c"
    # As on a real cluster, the image's own variables are not expanded.
    assert result["B"] == "from c, secret, 1, $(PATH)"
    assert result["bin"] == "\ufffd"
    assert "bad=name" not in result


def test_optional_references_may_be_missing() -> None:
    container = {
        "envFrom": [{"configMapRef": {"name": "gone", "optional": True}}],
        "env": [
            {
                "name": "X",
                "valueFrom": {"secretKeyRef": {"name": "s", "key": "no", "optional": True}},
            },
        ],
    }
    assert "X" not in environment(container)


@pytest.mark.parametrize(
    ("container", "message"),
    [
        ({"envFrom": [{"configMapRef": {"name": "gone"}}]}, 'configmap "gone" not found'),
        (
            {"env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "no"}}}]},
            "couldn't find key no in Secret ns/s",
        ),
    ],
)
def test_missing_references_are_named(container: Document, message: str) -> None:
    with pytest.raises(MissingReferenceError, match=message):
        environment(container)


def test_command_and_arguments() -> None:
    def line(container: Document, command: list[str], arguments: list[str]) -> list[str]:
        variables = {"N": "3"}
        return command_line(container, variables, image_command=command, image_arguments=arguments)

    assert line({}, ["entry"], ["default"]) == ["entry", "default"]
    assert line({"args": ["$(N)"]}, ["entry"], ["default"]) == ["entry", "3"]
    assert line({"command": ["own"]}, ["entry"], ["default"]) == ["own"]
    assert line({}, [], ["sh"]) == ["sh"]
    with pytest.raises(NoCommandError, match="give the container a command"):
        line({}, [], [])


def any_object(name: str, *, labels: dict[str, str] | None = None, **body: Any) -> AnyObject:
    metadata = FullObjectMeta(name=name, namespace="ns", labels=labels or {})
    return AnyObject(metadata=metadata, **body)


def service(name: str, **spec: Any) -> AnyObject:
    return any_object(name, spec=spec)


def test_variables_of_services() -> None:
    ports = [{"name": "web", "port": 80}, {"port": 53, "protocol": "UDP"}]
    services = [
        service("my-db", clusterIP="127.64.0.1", ports=ports),
        service("headless", clusterIP="None", ports=ports),
    ]
    assert service_variables(services, "ns") == {
        "MY_DB_SERVICE_HOST": "127.64.0.1",
        "MY_DB_SERVICE_PORT": "80",
        "MY_DB_SERVICE_PORT_WEB": "80",
        "MY_DB_PORT": "tcp://127.64.0.1:80",
        "MY_DB_PORT_80_TCP": "tcp://127.64.0.1:80",
        "MY_DB_PORT_80_TCP_PROTO": "tcp",
        "MY_DB_PORT_80_TCP_PORT": "80",
        "MY_DB_PORT_80_TCP_ADDR": "127.64.0.1",
        "MY_DB_PORT_53_UDP": "udp://127.64.0.1:53",
        "MY_DB_PORT_53_UDP_PROTO": "udp",
        "MY_DB_PORT_53_UDP_PORT": "53",
        "MY_DB_PORT_53_UDP_ADDR": "127.64.0.1",
    }
    assert service_variables(services, "ns", links=False) == {}
    assert service_variables(services, "other") == {}


# -- files of volumes -------------------------------------------------------------------------


def test_files_of_volumes() -> None:
    projected = {
        "projected": {
            "defaultMode": 0o400,
            "sources": [
                {
                    "configMap": {
                        "name": "c",
                        "items": [{"key": "A", "path": "d/a", "mode": 0o755}],
                    }
                },
                {"secret": {"name": "s"}},
                {"configMap": {"name": "gone", "optional": True}},
                {
                    "downwardAPI": {
                        "items": [
                            {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}},
                            {
                                "path": "cpu",
                                "resourceFieldRef": {
                                    "containerName": "main",
                                    "resource": "limits.cpu",
                                },
                            },
                        ]
                    }
                },
                {"serviceAccountToken": {"path": "token", "audience": "x"}},
            ],
        }
    }
    request = TokenRequest("x", 3600)
    assert list(token_requests(projected)) == [request]
    assert volume_files(FACTS, projected, SOURCES, {request: "t"}) == {
        "d/a": File(b"from c", 0o755),
        "P": File(b"secret", 0o400),
        "name": File(b"p", 0o400),
        "cpu": File(b"2", 0o400),
        "token": File(b"t", 0o400),
    }


@pytest.mark.parametrize(
    ("pod", "users", "expected"),
    [
        ({}, [{}], File(b"t", 0o644)),
        ({"runAsUser": 7}, [{}, {}], File(b"t", 0o600, 7)),
        ({"runAsUser": 7}, [{}, {"runAsUser": 8}], File(b"t", 0o644)),
        ({}, [{"runAsUser": 8}, {"runAsUser": 8}], File(b"t", 0o600, 8)),
        ({}, [{"runAsUser": 8}, {}], File(b"t", 0o644)),
        ({"fsGroup": 9}, [{}], File(b"t", 0o600)),
    ],
)
def test_a_token_belongs_to_the_user_of_the_pod(
    pod: dict[str, int], users: list[dict[str, int]], expected: File
) -> None:
    """KEP-1205: programs that do not run as root read their token."""
    containers = [{"name": f"c{place}", "securityContext": own} for place, own in enumerate(users)]
    spec = {
        "securityContext": pod,
        "initContainers": containers[1:],
        "containers": containers[:1],
    }
    facts = PodFacts({"spec": spec}, pod_ip="", host_ip="", allocatable={})
    volume = {"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    tokens = dict.fromkeys(token_requests(volume), "t")

    assert volume_files(facts, volume, SOURCES, tokens) == {"token": expected}


def test_missing_keys_of_volumes_are_named() -> None:
    volume = {"configMap": {"name": "c", "items": [{"key": "none", "path": "x"}]}}
    with pytest.raises(MissingReferenceError, match="non-existent config key: none"):
        volume_files(FACTS, volume, SOURCES, {})
    with pytest.raises(MissingReferenceError, match='configmap "gone" not found'):
        volume_files(FACTS, {"configMap": {"name": "gone"}}, SOURCES, {})


def test_directories_change_atomically(tmp_path: Path) -> None:
    place = tmp_path / "v"
    files = {"a": File(b"1", 0o644), "d/b": File(b"2", 0o600)}
    assert write_directory(place, files)
    assert not write_directory(place, files)
    assert (place / "a").is_symlink()
    assert (place / "d" / "b").read_bytes() == b"2"
    assert stat.S_IMODE((place / "d" / "b").stat().st_mode) == 0o600
    assert write_directory(place, {"a": File(b"3", 0o644)})
    assert {path.name for path in place.iterdir() if not path.name.startswith("..")} == {"a"}
    assert (place / "a").read_bytes() == b"3"
    assert len(list(place.glob("..[0-9]*"))) == 1


@pytest.mark.parametrize("path", ["/etc/x", "../x", "a/../../x", "..data"])
def test_paths_out_of_a_volume_are_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(ValueError, match="invalid path"):
        write_directory(tmp_path / "v", {path: File(b"", 0o644)})


# -- mounts -----------------------------------------------------------------------------------


def test_sub_paths_stay_in_their_volume(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("/etc")
    spec = {"volumes": [{"name": "v", "emptyDir": {}}]}

    def mount(**entry: Any) -> Path:
        container = {"volumeMounts": [{"name": "v", "mountPath": "/m", **entry}]}
        (found,) = volume_mounts(spec, container, lambda _: tmp_path, {"POD": "p"})
        return found.source

    assert mount(subPath="a/b") == tmp_path / "a" / "b"
    assert mount(subPathExpr="$(POD)") == tmp_path / "p"
    for wrong in ("../x", "/x", "out/passwd"):
        with pytest.raises(VolumeError, match="subPath"):
            mount(subPath=wrong)


def test_volumes_override_mounts_of_the_node() -> None:
    own = Mount("file", "/etc/hostname", content="x")
    theirs = Mount("bind", "/etc/hostname", "/somewhere")
    directory = Mount("directory", "/etc/hostname")
    assert ordered([own], [theirs], [directory]) == [theirs]


def test_large_files_of_an_image_are_mounted_and_small_ones_copied(tmp_path: Path) -> None:
    for name, size in (("small", 1024), ("large", 2 * 1024 * 1024)):
        with (tmp_path / name).open("wb") as file:
            file.truncate(size)
    files = {"/d": tmp_path, "/s": tmp_path / "small", "/l": tmp_path / "large"}
    shown = {mount.target: mount.kind for mount in image_mounts(Environment("e", files=files))}
    assert (shown["/d"], shown["/s"], shown["/l"]) == ("overlay", "copy", "bind")


def test_an_interpreter_in_a_hidden_directory_is_mounted(tmp_path: Path) -> None:
    prefix = tmp_path / "venv"
    mounts = image_mounts(Environment("e", prefix=prefix, files={"/x//y": tmp_path}))
    shown = {mount.target: mount.kind for mount in mounts}
    assert shown["/x/y"] == "overlay"
    if str(tmp_path).startswith("/tmp/"):
        assert shown[str(prefix)] == "overlay"


async def test_a_change_during_a_refresh_is_not_missed() -> None:
    sources, reference = SourceWatch(), Reference("ConfigMap", "c")
    with sources.watching("n", [reference]) as changed:
        sources.changed("n", reference)
        assert changed.is_set()
        changed.clear()
        # An object changes during the refresh.
        sources.changed("n", reference)
        sources.changed("n", Reference("Secret", "c"))
        assert changed.is_set()
    await sources.wait("n", [reference], 0.01)
    sources.changed("n", reference)


# -- users ------------------------------------------------------------------------------------


ROOT = Isolation(root=True)
USER = Isolation(root=False, uid=1000, gid=1000)
SHARED_PORTS = Isolation(root=True, shared_ports="seccomp: Device or resource busy")
BARE = Isolation(namespaces=False, root=False, uid=1000, gid=1000)


def an_environment(user: ImageUser | None) -> Environment:
    return Environment("vision", user=user)


@pytest.mark.parametrize(
    ("isolation", "pod", "container", "identity"),
    [
        (ROOT, {}, {}, Identity(None, None, None)),
        (ROOT, {"runAsUser": 5}, {}, Identity(5, 0, [])),
        (ROOT, {"runAsUser": 5, "runAsGroup": 6}, {"runAsUser": 7}, Identity(7, 6, [])),
        (ROOT, {"fsGroup": 9, "supplementalGroups": [8]}, {}, Identity(None, 0, [8, 9])),
        (USER, {}, {}, Identity(1000, 1000, None)),
        (USER, {"runAsUser": 0}, {}, Identity(0, 1000, None)),
        (BARE, {"runAsUser": 5}, {}, Identity(None, None, None)),
    ],
)
def test_users(
    isolation: Isolation, pod: Document, container: Document, identity: Identity
) -> None:
    document = {"spec": {"securityContext": pod}}
    spec = {"name": "c", "securityContext": container}
    found = container_identity(document, spec, isolation, an_environment(None))
    assert found == identity


IMAGE = ImageUser(1001, 7)


@pytest.mark.parametrize(
    ("isolation", "context", "image", "identity"),
    [
        # kubebuilder's manifests name no user: their images do.
        (ROOT, {"runAsNonRoot": True}, None, Identity(65532, 65532, [])),
        (ROOT, {"runAsNonRoot": True, "runAsGroup": 3}, None, Identity(65532, 3, [])),
        (ROOT, {"runAsNonRoot": True}, IMAGE, Identity(1001, 7, [])),
        (ROOT, {"runAsNonRoot": True, "runAsUser": 5}, IMAGE, Identity(5, 0, [])),
        (ROOT, {}, IMAGE, Identity(1001, 7, [])),
        (ROOT, {"runAsGroup": 3}, IMAGE, Identity(1001, 3, [])),
        (USER, {"runAsNonRoot": True}, None, Identity(1000, 1000, None)),
        (USER, {"runAsNonRoot": True}, IMAGE, Identity(1001, 7, None)),
        (BARE, {"runAsNonRoot": True}, IMAGE, Identity(None, None, None)),
    ],
)
def test_users_of_images(
    isolation: Isolation, context: Document, image: ImageUser | None, identity: Identity
) -> None:
    document = {"spec": {"securityContext": context}}
    found = container_identity(document, {"name": "c"}, isolation, an_environment(image))
    assert found == identity


PASSWD = "root:x:0:0:root:/root:/bin/sh\ntrainer:x:1000:100::/home/trainer:/bin/sh\nbroken:x:y\n"
GROUP = "root:x:0:\nusers:x:100:\nrender:x:107:trainer,other\n"


def container_image(user: str) -> Environment:
    root = ImageRoot(id="sha256:1", layers=(), size=0, user=user, passwd=PASSWD, group=GROUP)
    return Environment("me/train:7", root=root)


@pytest.mark.parametrize(
    ("isolation", "context", "user", "identity"),
    [
        (ROOT, {}, "", Identity(0, 0, [])),
        (USER, {}, "", Identity(0, 0, [])),
        (ROOT, {}, "trainer", Identity(1000, 100, [107])),
        (USER, {}, "trainer", Identity(1000, 100, [107])),
        (ROOT, {}, "trainer:render", Identity(1000, 107, [107])),
        (ROOT, {}, "1000", Identity(1000, 100, [107])),
        (ROOT, {}, "1000:7", Identity(1000, 7, [107])),
        (ROOT, {}, "5000", Identity(5000, 0, [])),
        (ROOT, {"runAsUser": 1000}, "", Identity(1000, 100, [107])),
        (ROOT, {"runAsUser": 4, "runAsGroup": 3}, "trainer", Identity(4, 3, [])),
        (ROOT, {"runAsGroup": 3, "fsGroup": 9}, "trainer", Identity(1000, 3, [107, 9])),
        (ROOT, {"runAsNonRoot": True}, "1000", Identity(1000, 100, [107])),
    ],
)
def test_users_of_container_images(
    isolation: Isolation, context: Document, user: str, identity: Identity
) -> None:
    document = {"spec": {"securityContext": context}}
    assert container_identity(document, {"name": "c"}, isolation, container_image(user)) == identity


@pytest.mark.parametrize(
    ("user", "text"),
    [
        ("nobody", "unable to find user nobody: the image has no such user"),
        ("trainer:staff", "unable to find group staff: the image has no such group"),
        ("4294967295", "unable to find user 4294967295: the image has no such user"),
        ("\u0663", "unable to find user \u0663: the image has no such user"),
    ],
)
def test_users_that_a_container_image_lacks(user: str, text: str) -> None:
    with pytest.raises(UnknownUserError) as caught:
        container_identity({"spec": {}}, {"name": "c"}, ROOT, container_image(user))
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("user", "text"),
    [
        ("", "container has runAsNonRoot and image will run as root"),
        ("0:0", "container has runAsNonRoot and image will run as root"),
        (
            "trainer",
            "container has runAsNonRoot and image has non-numeric user (trainer), cannot verify",
        ),
    ],
)
def test_users_of_container_images_that_may_be_root(user: str, text: str) -> None:
    document = {"spec": {"securityContext": {"runAsNonRoot": True}}}
    with pytest.raises(RootRefusedError) as caught:
        container_identity(document, {"name": "c"}, ROOT, container_image(user))
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("SIGTERM", 15),
        ("int", 2),
        ("SIGUSR1", 10),
        ("9", 9),
        ("SIGRTMIN+3", 37),
        ("", 15),
        ("0", 15),
        ("99", 15),
        ("SIGRTMIN+99", 15),
        ("SIGTERM+1", 15),
        ("\u0663", 15),
    ],
)
def test_stop_signals(name: str, number: int) -> None:
    assert signal_number(name) == number


@pytest.mark.parametrize("isolation", [ROOT, USER])
@pytest.mark.parametrize(
    ("context", "image", "text"),
    [
        ({"runAsUser": 0}, None, "container's runAsUser breaks non-root policy"),
        ({}, ImageUser(0), "container has runAsNonRoot and image will run as root"),
    ],
)
def test_root_is_rejected_with_run_as_non_root(
    isolation: Isolation, context: Document, image: ImageUser | None, text: str
) -> None:
    metadata = {"name": "p", "namespace": "n", "uid": "u"}
    spec = {"securityContext": {"runAsNonRoot": True, **context}}
    with pytest.raises(RootRefusedError) as caught:
        container_identity(
            {"metadata": metadata, "spec": spec}, {"name": "c"}, isolation, an_environment(image)
        )
    assert str(caught.value) == f'{text} (pod: "p_n(u)", container: c)'


NOBODY = 2_000_000_124


@pytest.mark.parametrize(
    ("entry", "wanted"),
    [
        (
            "nobody:x:{uid}:5:nobody:/nonexistent:/usr/sbin/nologin",
            "nobody:x:{uid}:5:nobody:/:/bin/sh",
        ),
        ("git:x:{uid}:5::/tmp:/bin/false", "git:x:{uid}:5::/tmp:/bin/sh"),
        ("build:x:{uid}:5::/gone:/bin/bash", "build:x:{uid}:5::/:/bin/bash"),
        ("old:x:{uid}:5::/tmp:", "old:x:{uid}:5::/tmp:/bin/sh"),
    ],
)
def test_a_user_that_cannot_log_in_gets_what_it_lacks(entry: str, wanted: str) -> None:
    """sshd gives every command to the shell, in the home directory."""
    before, after = "root:x:0:0:root:/root:/bin/sh\n", "sshd:x:102:65534::/run/sshd:/bin/false\n"
    found = passwd_with(NOBODY, 5, f"{before}{entry.format(uid=NOBODY)}\n{after}")
    assert found == f"{before}{wanted.format(uid=NOBODY)}\n{after}"


def test_a_user_that_can_log_in_is_left_alone() -> None:
    assert passwd_with(NOBODY, 5, f"me:x:{NOBODY}:5::/tmp:/usr/bin/fish\n") is None


def test_no_account_of_a_user_is_locked_by_an_entry_from_elsewhere() -> None:
    """systemd's name service has one of nobody, which counts where the file has none."""
    passwd, shadow = (
        f"root:x:0:0::/:/bin/sh\nme:x:{NOBODY}:5::/:/bin/sh",
        "root:*:20000:0:99999:7:::\n",
    )
    assert shadow_with(NOBODY, passwd, shadow) == f"{shadow}me:*:::::::\n"
    assert shadow_with(NOBODY, passwd, shadow.rstrip("\n")) == f"{shadow}me:*:::::::\n"
    assert shadow_with(0, passwd, shadow) == shadow
    assert shadow_with(7, passwd, shadow) == shadow


def test_a_user_without_a_name_gets_one() -> None:
    root = "root:x:0:0:root:/root:/bin/sh\n"
    assert passwd_with(0, 0, root) is None
    uid = 2_000_000_123  # of nobody on any machine
    added = f"pod:x:{uid}:5::/:/bin/sh\n"
    assert passwd_with(uid, 5, root) == root + added
    assert passwd_with(uid, 5, root.rstrip("\n")) == root + added
    assert passwd_with(uid, 5, "") == added


# -- restarts and pulls -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "code", "sidecar", "again"),
    [
        ("Always", 0, False, True),
        ("OnFailure", 0, False, False),
        ("OnFailure", 1, False, True),
        ("Never", 1, False, False),
        ("Never", 0, True, True),
    ],
)
def test_restart_policies(policy: str, code: int, sidecar: bool, again: bool) -> None:
    assert should_restart(policy, code, sidecar=sidecar) is again


def test_back_off_doubles_and_resets() -> None:
    back_off = BackOff(immediate=True)
    assert [back_off.after() for _ in range(8)] == [0, 10, 20, 40, 80, 160, 300, 300]
    assert back_off.after(ran=601) == 0
    assert BackOff(immediate=False).after() == 10
    assert BackOff(immediate=True, failures=3).after() == 40


@pytest.mark.parametrize(
    ("container", "policy"),
    [
        ({"image": "a"}, "Always"),
        ({"image": "a:latest"}, "Always"),
        ({"image": "host:5000/a"}, "Always"),
        ({"image": "a:1"}, "IfNotPresent"),
        ({"image": "a@sha256:00"}, "IfNotPresent"),
        ({"image": "a", "imagePullPolicy": "Never"}, "Never"),
    ],
)
def test_pull_policies(container: Document, policy: str) -> None:
    assert pull_policy(container) == policy


# -- names and Services -----------------------------------------------------------------------


OWN_LINES = """\
# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""
NAMES = {
    "db.ns.svc.cluster.local": ["127.64.0.1"],
    "w.far.svc.cluster.local": ["127.42.0.3", "127.42.0.4"],
}


def test_a_hosts_file_has_the_pods_own_names_only() -> None:
    plain = PodName("ns", "127.42.0.2", "single")
    assert hosts_text(plain, NAMES) == f"{OWN_LINES}127.42.0.2\tsingle\n"
    aliases = (("10.0.0.1", ("alias", "other")),)
    named = PodName("ns", "127.42.0.1", "w-0", "w", aliases)
    # The first name is the canonical one, which getfqdn() has to find.
    assert hosts_text(named, NAMES) == (
        f"{OWN_LINES}127.42.0.1\tw-0.w.ns.svc.cluster.local\tw-0\n"
        "\n# Entries added by HostAliases.\n10.0.0.1\talias\tother\n"
    )


def test_a_pod_of_the_hosts_network_has_the_machines_file() -> None:
    host = PodName("ns", "127.42.0.1", "h", aliases=(("9.9.9.9", ("x",)),), host_network=True)
    assert hosts_text(host, NAMES, "127.0.0.1 localhost machine") == (
        "# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost machine\n"
        "\n# Entries added by HostAliases.\n9.9.9.9\tx\n"
    )


def test_a_hosts_file_has_the_clusters_names_where_its_server_cannot_be_reached() -> None:
    pod = PodName("ns", "127.42.0.2", "single", mirrors=True)
    # The forms by which a resolver with the cluster's search domains finds them.
    assert hosts_text(pod, NAMES).removeprefix(OWN_LINES) == (
        "127.42.0.2\tsingle\n"
        "127.64.0.1\tdb.ns.svc.cluster.local\tdb.ns.svc\tdb.ns\tdb\n"
        "127.42.0.3\tw.far.svc.cluster.local\tw.far.svc\tw.far\n"
        "127.42.0.4\tw.far.svc.cluster.local\tw.far.svc\tw.far\n"
    )


def test_what_hostname_prints() -> None:
    pod = {"name": "p", "namespace": "ns"}
    spec: Document = {"hostname": "h", "subdomain": "s"}
    assert kernel_host_name(pod, {}, "node") == ("p", "")
    assert kernel_host_name(pod, spec, "node") == ("h", "")
    qualified = {**spec, "setHostnameAsFQDN": True}
    assert kernel_host_name(pod, qualified, "node") == ("h.s.ns.svc.cluster.local", "")
    assert kernel_host_name(pod, {"setHostnameAsFQDN": True}, "node") == ("p", "")
    assert kernel_host_name(pod, {**qualified, "hostNetwork": True}, "node") == ("node", "")
    _, why = kernel_host_name(pod, {**qualified, "hostname": "h" * 50}, "node")
    assert "is too long (64 characters is the max, 73 characters requested)" in why


def endpoint_slice(name: str, *endpoints: Document, ports: list[Document]) -> AnyObject:
    labels = {"kubernetes.io/service-name": name}
    return any_object(f"{name}-x", labels=labels, endpoints=list(endpoints), ports=ports)


READY = {"addresses": ["127.42.0.1"], "conditions": {"ready": True}}
UNREADY = {"addresses": ["127.42.0.2"], "conditions": {"ready": False}}


def test_listeners_of_services() -> None:
    ports = [
        {"name": "x", "port": 80, "nodePort": 30001},
        {"name": "u", "port": 1, "protocol": "UDP"},
    ]
    services = [
        service("virtual", clusterIP="127.64.0.1", ports=ports),
        service("real", clusterIP="10.0.0.1", ports=ports),
    ]
    slices = [endpoint_slice("virtual", READY, UNREADY, ports=[{"name": "x", "port": 8080}])]
    wanted = listeners(services, slices)
    assert {where: served.backends for where, served in wanted.items()} == {
        Listener("127.64.0.1", 80): (Backend("127.42.0.1", 8080),),
        Listener("127.0.0.1", 30001): (Backend("127.42.0.1", 8080),),
    }


def test_hosts_files_are_updated(tmp_path: Path) -> None:
    names: dict[str, tuple[str, ...]] = {}
    hosts = HostsFiles(tmp_path)
    hosts.names = lambda: names
    hosts.settle()
    plain = hosts.add_pod("1", PodName("ns", "127.42.0.1", "a"))
    mirroring = hosts.add_pod("2", PodName("ns", "127.42.0.2", "b", mirrors=True))
    assert plain != mirroring
    names["db.ns.svc.cluster.local"] = ("127.64.0.1",)
    hosts.update()
    assert "127.64.0.1\tdb.ns.svc.cluster.local" in (mirroring / "hosts").read_text()
    assert "db" not in (plain / "hosts").read_text()
    names.clear()
    hosts.update()
    assert "db" not in (mirroring / "hosts").read_text()
    hosts.remove_pod("2")
    assert not mirroring.exists()
    assert plain.exists()
    hosts.remove_pod("1")
    assert list(tmp_path.iterdir()) == []


def test_a_restart_keeps_names_until_all_are_known(tmp_path: Path) -> None:
    pod = PodName("ns", "127.42.0.1", "a", mirrors=True)
    before = HostsFiles(tmp_path)
    before.names = lambda: {"db.ns.svc.cluster.local": ("127.64.0.1",)}
    before.add_pod("1", pod)
    after = HostsFiles(tmp_path)
    path = after.add_pod("1", pod) / "hosts"
    assert "127.64.0.1\tdb.ns.svc.cluster.local" in path.read_text()
    after.settle()
    assert "127.64.0.1" not in path.read_text()
    assert "127.42.0.1\ta\n" in path.read_text()


def test_addresses_are_unique(tmp_path: Path) -> None:
    first, second = PodAddresses(tmp_path), PodAddresses(tmp_path / "b")
    (tmp_path / "b").mkdir()
    first.open()
    second.open()
    try:
        one = first.allocate("a")
        assert first.allocate("a") == one
        assert first.allocate("b") != one
        assert first.allocate("c", wanted=one) != one
        # Clusters use distinct networks.
        assert second.allocate("a").split(".")[1] != one.split(".")[1]
        first.release("a")
        assert first.allocate("d", wanted=one) == one
    finally:
        first.close()
        second.close()


def test_gpus_are_allocated_once() -> None:
    gpus = GpuAllocator([NodeSpec("a", gpus=2), NodeSpec("b", gpus=1)])
    assert gpus.allocate("a", "u1", "c", 1) == [0]
    assert gpus.allocate("a", "u1", "c", 1) == [0]
    assert gpus.allocate("a", "u2", "c", 2) is None
    assert gpus.allocate("b", "u2", "c", 1) == [2]
    gpus.release("u1", "c")
    assert gpus.allocate("a", "u3", "c", 2) == [0, 1]


def driver(directory: Path, minors: dict[str, int]) -> Path:
    """What NVIDIA's driver says in `/proc`, of GPUs by their addresses on the bus."""
    for address, minor in minors.items():
        (directory / address).mkdir(parents=True)
        (directory / address / "information").write_text(
            f"Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 0\nGPU UUID: \t GPU-{minor}-a:b\n"
            f"Bus Location: \t {address}\nDevice Minor: \t {minor}\n"
        )
    return directory


def test_the_gpus_of_the_machine(tmp_path: Path) -> None:
    assert machine_gpus(tmp_path / "none") == ()
    listed = driver(tmp_path, {"0000:81:00.0": 0, "0000:41:00.0": 1})
    (tmp_path / "0000:99:00.0").mkdir()
    assert machine_gpus(listed) == (Gpu(1, "GPU-1-a:b"), Gpu(0, "GPU-0-a:b"))
    (tmp_path / "0000:81:00.0" / "information").write_text("GPU UUID: GPU-????\nDevice Minor: 7\n")
    assert machine_gpus(listed)[1] == Gpu(7)


def test_a_container_has_the_device_files_of_its_gpus() -> None:
    gpus = GpuAllocator([NodeSpec("a", gpus=2)], [Gpu(1, "GPU-b"), Gpu(0, "GPU-a")])
    control = {"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset", "nvidia-caps"}
    assert set(gpus.files([0]) or ()) == {"nvidia1", *control}
    assert set(gpus.files([0, 1]) or ()) == {"nvidia0", "nvidia1", *control}
    assert gpus.files([]) == []
    assert gpus.variables([0], own_files=True) == {"NVIDIA_VISIBLE_DEVICES": "GPU-b"}
    assert gpus.variables([], own_files=True) == {"NVIDIA_VISIBLE_DEVICES": "void"}
    # Where it sees all of the machine's, variables say which are its own.
    assert gpus.variables([1], own_files=False) == {
        "CUDA_VISIBLE_DEVICES": "1",
        "NVIDIA_VISIBLE_DEVICES": "1",
    }


def test_containers_share_gpus_if_nodes_offer_more_than_there_are() -> None:
    nodes = [NodeSpec("a", gpus=3), NodeSpec("b", gpus=1)]
    gpus = GpuAllocator(nodes, [Gpu(0, "GPU-a"), Gpu(1, "GPU-b")])
    assert gpus.allocate("b", "u", "c", 1) == [3]
    assert (gpus.files([3]) or [])[0] == "nvidia1"
    assert gpus.variables([0, 2], own_files=True) == {"NVIDIA_VISIBLE_DEVICES": "GPU-a"}
    assert gpus.variables([0, 2, 3], own_files=False)["CUDA_VISIBLE_DEVICES"] == "0,1"


def test_devices_are_left_alone_where_nodes_offer_none() -> None:
    gpus = GpuAllocator([NodeSpec("a")], [Gpu(0)])
    assert gpus.files([]) is None
    assert gpus.variables([], own_files=True) == {}
    assert GpuAllocator([NodeSpec("a", gpus=1)]).files([0]) is None  # whose file is whose?


def test_resources_of_nodes() -> None:
    machine = {"cpu": "2", "memory": "100Ki"}
    assert node_resources(NodeSpec("n"), machine)["cpu"] == "2"
    assert node_resources(NodeSpec("n", cpu="64", gpus=8), machine)["nvidia.com/gpu"] == "8"
    with pytest.raises(ValueError, match="is not a quantity"):
        node_resources(NodeSpec("n", memory="much"), machine)


# -- what is not emulated -----------------------------------------------------------------------


def test_an_ordinary_pod_has_no_unsupported_fields() -> None:
    pod = {
        "spec": {
            "dnsPolicy": "ClusterFirst",
            "securityContext": {},
            "volumes": [{"name": "e", "emptyDir": {}}, {"name": "c", "configMap": {"name": "c"}}],
            "containers": [
                {
                    "name": "c",
                    "resources": {"limits": {"memory": "1Gi", "nvidia.com/gpu": 1}},
                    "securityContext": {"runAsUser": 1000},
                }
            ],
        }
    }
    assert unsupported(pod, ROOT) == []
    assert unsupported(pod, USER) == []


@pytest.mark.parametrize(
    ("spec", "field", "isolation"),
    [
        ({"hostPID": True}, "spec.hostPID", ROOT),
        ({"runtimeClassName": "gvisor"}, "spec.runtimeClassName", ROOT),
        ({"dnsPolicy": "None"}, "spec.dnsPolicy", BARE),
        ({"dnsConfig": {"nameservers": ["1.1.1.1"]}}, "spec.dnsConfig", BARE),
        (
            {"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]},
            "spec.containers[0].ports",
            SHARED_PORTS,
        ),
        ({"securityContext": {"fsGroup": 5}}, "spec.securityContext.fsGroup", USER),
        ({"securityContext": {"runAsUser": 5}}, "spec.securityContext.runAsUser", BARE),
        ({"hostname": "h"}, "spec.hostname", BARE),
        ({"volumes": [{"name": "n", "nfs": {}}]}, "spec.volumes[0].nfs", ROOT),
        (
            {"containers": [{"name": "c", "resources": {"limits": {"cpu": 1}}}]},
            "spec.containers[0].resources.limits.cpu",
            ROOT,
        ),
        (
            {"initContainers": [{"name": "c", "securityContext": {"privileged": True}}]},
            "spec.initContainers[0].securityContext.privileged",
            ROOT,
        ),
        (
            {"containers": [{"name": "c", "livenessProbe": {"grpc": {"port": 1}}}]},
            "spec.containers[0].livenessProbe.grpc",
            ROOT,
        ),
    ],
)
def test_unsupported_fields_are_named(spec: Document, field: str, isolation: Isolation) -> None:
    assert [each.field for each in unsupported({"spec": spec}, isolation)] == [field]


def test_unsupported_fields_of_services() -> None:
    found = unsupported_service({"ports": [{"protocol": "UDP"}, {}], "type": "ExternalName"})
    assert [each.field for each in found] == ["spec.ports[0].protocol"]


# -- logs -------------------------------------------------------------------------------------


LINES = [
    "2026-11-20T10:00:00.000000001Z stdout F one",
    "2026-11-20T10:00:01.000000001Z stderr F ",
    "2026-11-20T10:00:02.000000001Z stdout P lo",
    "2026-11-20T10:00:02.000000001Z stdout P n",
    "2026-11-20T10:00:02.000000001Z stdout F g F x\rbar",
    "2026-11-20T10:00:03.000000001Z stdout F last",
]


def write_log(path: Path, lines: list[str]) -> None:
    path.write_bytes("".join(line + "\n" for line in lines).encode())


async def lines_of(path: Path, **options: Any) -> str:
    def now() -> datetime:
        return datetime(2026, 11, 20, 10, 0, 3, tzinfo=UTC)

    chunks = read_log(path, LogOptions(**options), lambda: True, now)
    return b"".join([chunk async for chunk in chunks]).decode()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "one\n\nlong F x\rbar\nlast\n"),
        ({"follow": True}, "one\n\nlong F x\rbar\nlast\n"),
        ({"tail_lines": 0}, ""),
        ({"tail_lines": 1}, "last\n"),
        ({"tail_lines": 2}, "g F x\rbar\nlast\n"),
        ({"tail_lines": 4}, "long F x\rbar\nlast\n"),
        ({"tail_lines": 99}, "one\n\nlong F x\rbar\nlast\n"),
        ({"limit_bytes": 6}, "one\n\nl"),
        ({"since_seconds": 1}, "long F x\rbar\nlast\n"),
        ({"since_seconds": 2**62}, "one\n\nlong F x\rbar\nlast\n"),
        ({"since_seconds": 50_000_000_000}, "one\n\nlong F x\rbar\nlast\n"),
        ({"since_time": "2026-11-20T11:00:03+01:00"}, "last\n"),
        ({"tail_lines": 1, "timestamps": True}, "2026-11-20T10:00:03.000000001Z last\n"),
        (
            {"tail_lines": 1, "timestamps": True, "limit_bytes": 32},
            "2026-11-20T10:00:03.000000001Z l",
        ),
    ],
)
async def test_log_options(tmp_path: Path, options: Document, text: str) -> None:
    write_log(tmp_path / "log", LINES)
    assert await lines_of(tmp_path / "log", **options) == text


async def test_the_time_of_the_last_part_of_a_line_that_has_not_ended(tmp_path: Path) -> None:
    bar = [f"2026-11-20T10:00:{second:02}.000000001Z stdout P {'x' * 16384}" for second in (3, 9)]
    write_log(tmp_path / "log", [*LINES, *bar])
    options = {"tail_lines": 1, "timestamps": True, "limit_bytes": 64}
    text = await lines_of(tmp_path / "log", **options)
    assert text == "2026-11-20T10:00:09.000000001Z " + "x" * 33
    (tmp_path / "log").write_bytes(b"")
    assert await lines_of(tmp_path / "log", **options) == ""


@pytest.mark.parametrize(
    ("tail", "text"), [(1, b"last\n"), (None, b"one\n\nlong F x\rbar\nlast\n")]
)
async def test_without_follow_later_lines_are_not_read(
    tmp_path: Path, tail: int | None, text: bytes
) -> None:
    write_log(tmp_path / "log", LINES)
    options = LogOptions(tail_lines=tail)
    chunks = read_log(tmp_path / "log", options, lambda: False, lambda: datetime.now(UTC))
    assert await anext(chunks) == text
    write_log(tmp_path / "log", [*LINES, "2026-11-20T10:00:04.000000001Z stdout F late"])
    assert [chunk async for chunk in chunks] == []


async def test_logs_include_the_rotated_file(tmp_path: Path) -> None:
    write_log(tmp_path / "log.1", LINES[:2])
    write_log(tmp_path / "log", LINES[2:])
    assert await lines_of(tmp_path / "log") == "one\n\nlong F x\rbar\nlast\n"


def test_the_tail_of_a_log(tmp_path: Path) -> None:
    write_log(tmp_path / "log", LINES)
    assert tail_of(tmp_path / "log", 2, 100) == "long F x\rbar\nlast\n"
    assert tail_of(tmp_path / "log", 80, 7) == "r\nlast\n"
    assert tail_of(tmp_path / "none", 1, 1) == ""
