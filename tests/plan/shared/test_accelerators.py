"""What containers with an accelerator are given, and the configuration that says so."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from traincrew.plan.shared.templates.accelerators import (
    NO_ACCELERATORS,
    Accelerator,
    Accelerators,
    Volume,
    apply,
    parse,
)

GPU = "alpha.kubernetes.io/nvidia-gpu"
DRIVER = "/var/lib/nvidia-docker/volumes/nvidia_driver/current"
LIBRARIES = {"name": "nvidia-libraries", "hostPath": DRIVER, "mountPath": "/usr/local/nvidia"}
CONFIGURED = parse(
    {
        "accelerators": {
            GPU: {
                "volumes": [
                    LIBRARIES,
                    {
                        "name": "tools",
                        "hostPath": "/opt/tools",
                        "mountPath": "/usr/local/bin/nvidia",
                    },
                ],
                "envVars": [
                    {"name": "LD_LIBRARY_PATH", "value": "/usr/local/nvidia/lib64"},
                    {"name": "DEBUG", "value": ""},
                ],
            },
            "example.com/fpga": {
                "volumes": [
                    {"name": "fpga", "hostPath": "/opt/fpga", "mountPath": "/fpga"},
                    {**LIBRARIES, "hostPath": "/elsewhere", "mountPath": "/elsewhere"},
                ],
                "envVars": [{"name": "DEBUG", "value": "fpga"}, {"name": "FPGA", "value": "1"}],
            },
        }
    }
)


def template(container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    found = {"name": "mxnet", "image": "i", "resources": {"limits": {GPU: 1}}, **(container or {})}
    return {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [found], **spec}}


def equipped(container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    before = template(container, **spec)
    kept = copy.deepcopy(before)
    found = apply(before, CONFIGURED)
    assert before == kept, "the template that was passed in is modified"
    assert apply(found, CONFIGURED) == found, "to apply it twice is to apply it once"
    result: dict[str, Any] = found["spec"]
    return result


def host_path(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "hostPath": {"path": path}}


def mount(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "mountPath": path}


@pytest.mark.parametrize("where", ["limits", "requests"])
def test_a_container_with_the_resource_gets_everything(where: str) -> None:
    pod = equipped({"resources": {where: {GPU: "1", "cpu": "1"}}})

    assert pod["volumes"] == [
        host_path("nvidia-libraries", DRIVER),
        host_path("tools", "/opt/tools"),
    ]
    (container,) = pod["containers"]
    assert container["volumeMounts"] == [
        mount("nvidia-libraries", "/usr/local/nvidia"),
        mount("tools", "/usr/local/bin/nvidia"),
    ]
    assert container["env"] == [
        {"name": "LD_LIBRARY_PATH", "value": "/usr/local/nvidia/lib64"},
        {"name": "DEBUG", "value": ""},
    ]


@pytest.mark.parametrize(
    "container",
    [
        {"resources": {}},
        {"resources": None},
        {"resources": {"limits": None, "requests": {}}},
        {"resources": {"limits": {"nvidia.com/gpu": 1}}},
        {"name": "sidecar"},
    ],
)
def test_others_are_left_alone(container: dict[str, Any]) -> None:
    assert apply(template(container), CONFIGURED) == template(container)


def test_only_the_container_that_trains_is_changed() -> None:
    sidecar = {"name": "sidecar", "resources": {"limits": {GPU: 1}}}
    before = template(initContainers=[{**sidecar, "name": "mxnet"}])
    before["spec"]["containers"].append(sidecar)
    after = apply(before, CONFIGURED)["spec"]

    assert after["containers"][1] == sidecar
    assert after["initContainers"] == before["spec"]["initContainers"]
    assert after["containers"][0] != before["spec"]["containers"][0]


def test_without_a_configuration_nothing_changes() -> None:
    assert apply(template(), NO_ACCELERATORS) == template()


def test_the_users_entries_win_and_may_refer_to_variables() -> None:
    own_volume = {"name": "nvidia-libraries", "emptyDir": {}}
    pod = equipped(
        {
            "env": [{"name": "DEBUG", "value": "mine"}, {"name": "A", "value": "b"}],
            "volumeMounts": [mount("data", "/usr/local/bin/nvidia")],
        },
        volumes=[own_volume, {"name": "data", "emptyDir": {}}],
    )

    # Nothing is mounted from `tools`, so it is not a volume either.
    assert pod["volumes"] == [own_volume, {"name": "data", "emptyDir": {}}]
    (container,) = pod["containers"]
    assert container["volumeMounts"] == [
        mount("data", "/usr/local/bin/nvidia"),
        mount("nvidia-libraries", "/usr/local/nvidia"),
    ]
    assert container["env"] == [
        {"name": "LD_LIBRARY_PATH", "value": "/usr/local/nvidia/lib64"},
        {"name": "DEBUG", "value": "mine"},
        {"name": "A", "value": "b"},
    ]


def test_a_mount_of_the_users_own_gets_the_volume() -> None:
    pod = equipped({"volumeMounts": [mount("tools", "/mine")]})

    assert host_path("tools", "/opt/tools") in pod["volumes"]
    (container,) = pod["containers"]
    assert container["volumeMounts"] == [
        mount("tools", "/mine"),
        mount("nvidia-libraries", "/usr/local/nvidia"),
    ]


def test_two_accelerators_in_the_order_of_the_file() -> None:
    """Of one name, the volume and the variable that come first are used."""
    pod = equipped({"resources": {"limits": {GPU: 1}, "requests": {"example.com/fpga": 1}}})

    assert pod["volumes"] == [
        host_path("nvidia-libraries", DRIVER),
        host_path("tools", "/opt/tools"),
        host_path("fpga", "/opt/fpga"),
    ]
    (container,) = pod["containers"]
    assert [entry["mountPath"] for entry in container["volumeMounts"]] == [
        "/usr/local/nvidia",
        "/usr/local/bin/nvidia",
        "/fpga",
    ]
    assert {entry["name"]: entry["value"] for entry in container["env"]} == {
        "LD_LIBRARY_PATH": "/usr/local/nvidia/lib64",
        "DEBUG": "",
        "FPGA": "1",
    }


# -- properties -------------------------------------------------------------------------------

names = st.sampled_from(["a", "b", "c"])
paths = st.sampled_from(["/x", "/y", "/z"])
resources = st.sampled_from([GPU, "nvidia.com/gpu", "example.com/fpga"])
accelerators = st.builds(
    Accelerator,
    volumes=st.lists(
        st.builds(Volume, name=names, host_path=paths, mount_path=paths), max_size=3
    ).map(tuple),
    variables=st.dictionaries(names, paths).map(lambda found: tuple(found.items())),
)
configurations = st.dictionaries(resources, accelerators).map(
    lambda found: Accelerators(tuple(found.items()))
)
containers = st.fixed_dictionaries(
    {"name": st.sampled_from(["mxnet", "other"])},
    optional={
        "env": st.lists(names, unique=True).map(
            lambda found: [{"name": name, "value": "mine"} for name in found]
        ),
        "resources": st.fixed_dictionaries(
            {},
            optional={
                key: st.dictionaries(resources, st.just(1)) for key in ("limits", "requests")
            },
        ),
        "volumeMounts": st.lists(st.tuples(names, paths), unique_by=lambda each: each[1]).map(
            lambda found: [mount(*each) for each in found]
        ),
    },
)


@example(
    Accelerators(
        (("gpu", Accelerator(volumes=(Volume("a", "/x", "/x"), Volume("b", "/y", "/x")))),)
    ),
    {"name": "mxnet", "resources": {"limits": {"gpu": 1}}},
    [],
)
@example(
    Accelerators((("gpu", Accelerator(variables=(("a", "/x"), ("b", "/x")))),)),
    {
        "name": "mxnet",
        "env": [{"name": "a", "value": "mine"}],
        "resources": {"limits": {"gpu": 1}},
    },
    [],
)
@given(configurations, containers, st.lists(names, unique=True))
def test_nothing_twice_and_nothing_of_the_user_lost(
    configured: Accelerators, container: dict[str, Any], volumes: list[str]
) -> None:
    own = [{"name": name, "emptyDir": {}} for name in volumes]
    before = {"metadata": {}, "spec": {"containers": [container], "volumes": own}}
    after = apply(before, configured)
    (found,) = after["spec"]["containers"]

    assert apply(after, configured) == after
    for key, node, was in (
        ("name", after["spec"]["volumes"], own),
        ("mountPath", found.get("volumeMounts", []), container.get("volumeMounts", [])),
        ("name", found.get("env", []), container.get("env", [])),
    ):
        keys = [entry[key] for entry in node]
        assert len(keys) == len(set(keys))
        # Variables of the user come last, so that they can refer to the others.
        kept = node[len(node) - len(was) :] if node is found.get("env") else node[: len(was)]
        assert kept == was
    present = {volume["name"] for volume in after["spec"]["volumes"]}
    added = found.get("volumeMounts", [])[len(container.get("volumeMounts", [])) :]
    assert {entry["name"] for entry in added} <= present


# -- the configuration ------------------------------------------------------------------------


def with_volume(**fields: Any) -> dict[str, Any]:
    return {"accelerators": {GPU: {"volumes": [{**LIBRARIES, **fields}]}}}


def test_keys_in_any_case() -> None:
    fields = {"NAME": "nvidia-libraries", "HostPath": DRIVER, "mountpath": "/usr/local/nvidia"}
    found = parse(
        {"Accelerators": {GPU: {"VOLUMES": [fields], "envvars": [{"Name": "A", "VALUE": "b"}]}}}
    )

    assert found == Accelerators(
        (
            (
                GPU,
                Accelerator(
                    (Volume("nvidia-libraries", DRIVER, "/usr/local/nvidia"),), (("A", "b"),)
                ),
            ),
        )
    )


@pytest.mark.parametrize(
    "document",
    [
        None,
        {},
        {"accelerators": None},
        {"accelerators": {}},
    ],
)
def test_an_empty_configuration(document: Any) -> None:
    assert parse(document) == NO_ACCELERATORS


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "the document: a list instead of a mapping with the key accelerators"),
        ("text", "the document: 'text' instead of a mapping"),
        ({"accelerator": {}}, "accelerator: unknown field; there are accelerators"),
        ({"accelerators": {}, "Accelerators": {}}, "Accelerators: the second accelerators there"),
        ({"accelerators": [GPU]}, "accelerators: a list instead of a mapping"),
        ({"accelerators": {1: {}}}, "accelerators, a key: 1 instead of a text"),
        ({"accelerators": {"a b": {}}}, r"accelerators\[a b\]: not the name of a resource"),
        ({"accelerators": {GPU: "x"}}, rf"accelerators\[{GPU}\]: 'x' instead of a mapping"),
        (
            {"accelerators": {GPU: {"volume": []}}},
            rf"accelerators\[{GPU}\].volume: unknown field; there are volumes, envVars",
        ),
        ({"accelerators": {GPU: {"volumes": {}}}}, "volumes: a mapping instead of a list; begin"),
        (
            {"accelerators": {GPU: {"volumes": [None]}}},
            r"volumes\[0\].name: missing; write for example name: nvidia-libraries",
        ),
        (with_volume(name="A_b"), r"volumes\[0\].name: 'A_b' is not the name of a volume"),
        (with_volume(name="x" * 64), "is not the name of a volume; write at most 63"),
        (with_volume(name=["x"]), r"volumes\[0\].name: a list instead of a text"),
        (with_volume(hostPath="lib"), r"volumes\[0\].hostPath: 'lib' is relative"),
        (with_volume(mountPath=""), r"volumes\[0\].mountPath: missing"),
        (with_volume(mountPath="/a:b"), "'/a:b' contains ':'"),
        (with_volume(hostPath="/a/../b"), "contains '..'; write the path without it"),
        (with_volume(readOnly=True), r"volumes\[0\].readOnly: unknown field; there are name, host"),
        (
            {"accelerators": {GPU: {"volumes": [LIBRARIES, LIBRARIES]}}},
            r"volumes\[1\].name: 'nvidia-libraries' occurs twice; keep one of them",
        ),
        (
            {"accelerators": {GPU: {"volumes": [LIBRARIES, {**LIBRARIES, "name": "b"}]}}},
            r"volumes\[1\].mountPath: '/usr/local/nvidia' occurs twice",
        ),
        (
            {"accelerators": {GPU: {"envVars": [{"value": "x"}]}}},
            r"envVars\[0\].name: missing; write for example name: LD_LIBRARY_PATH",
        ),
        ({"accelerators": {GPU: {"envVars": [{"name": "A=B"}]}}}, "not the name of a variable"),
        (
            {"accelerators": {GPU: {"envVars": [{"name": "A", "value": {}}]}}},
            r"envVars\[0\].value: a mapping instead of a text",
        ),
        (
            {"accelerators": {GPU: {"envVars": [{"name": "A"}, {"name": "A"}]}}},
            r"envVars\[1\].name: 'A' occurs twice",
        ),
    ],
)
def test_mistakes_are_named_with_their_field(document: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(document)
