"""Strategic merge patch; random patches are compared with upstream's library in suites/."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traincrew.local.apiserver import schema
from traincrew.local.apiserver.patch.json import PatchError
from traincrew.local.apiserver.patch.strategic import strategic_merge

POD = schema.load_builtin("", "v1", "Pod")
DEPLOYMENT = schema.load_builtin("apps", "v1", "Deployment")


def names(items: list[dict[str, Any]]) -> list[str]:
    return [item["name"] for item in items]


def patched(spec: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    result = strategic_merge({"spec": spec}, {"spec": change}, POD)["spec"]
    assert isinstance(result, dict)
    return result


CONTAINERS: list[dict[str, Any]] = [
    {"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]},
    {"name": "b", "image": "2"},
]


def test_lists_merge_by_key() -> None:
    change = {"containers": [{"name": "b", "image": "3"}, {"name": "c", "image": "4"}]}
    assert patched({"containers": CONTAINERS}, change)["containers"] == [
        {"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]},
        {"name": "b", "image": "3"},
        {"name": "c", "image": "4"},
    ]


def test_nested_lists_merge_too_and_atomic_ones_are_replaced() -> None:
    change = {
        "containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}], "args": ["new"]}],
        "tolerations": [{"key": "b"}],
    }
    spec = {"containers": [CONTAINERS[0] | {"args": ["old"]}], "tolerations": [{"key": "a"}]}
    result = patched(spec, change)
    assert result["containers"][0]["args"] == ["new"]
    assert result["containers"][0]["env"] == [
        {"name": "Y", "value": "2"},
        {"name": "X", "value": "1"},
    ]
    assert result["tolerations"] == [{"key": "b"}]


def test_null_deletes_and_is_ignored_in_new_values() -> None:
    change = {"hostname": None, "securityContext": {"runAsUser": 1, "runAsGroup": None}}
    assert patched({"hostname": "h"}, change) == {"securityContext": {"runAsUser": 1}}


def test_items_are_deleted_by_directive() -> None:
    change = {"containers": [{"name": "a", "$patch": "delete"}]}
    assert names(patched({"containers": CONTAINERS}, change)["containers"]) == ["b"]


def test_a_list_is_replaced_by_directive() -> None:
    change = {"containers": [{"name": "z"}, {"$patch": "replace"}]}
    assert patched({"containers": CONTAINERS}, change)["containers"] == [{"name": "z"}]


def test_maps_are_replaced_and_deleted_by_directive() -> None:
    spec = {"nodeSelector": {"a": "1"}, "securityContext": {"runAsUser": 1}}
    change = {
        "nodeSelector": {"$patch": "replace", "b": "2"},
        "securityContext": {"$patch": "delete"},
    }
    assert patched(spec, change) == {"nodeSelector": {"b": "2"}, "securityContext": {}}


def test_element_order_wins() -> None:
    change = {
        "$setElementOrder/containers": [{"name": "c"}, {"name": "b"}, {"name": "a"}],
        "containers": [{"name": "c"}],
    }
    assert names(patched({"containers": CONTAINERS}, change)["containers"]) == ["c", "b", "a"]


def test_items_unknown_to_the_author_keep_their_place() -> None:
    containers = [{"name": name} for name in ("a", "sidecar", "b")]
    change = {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}
    result = patched({"containers": containers}, change)["containers"]
    assert names(result) == ["sidecar", "b", "a"]


def test_scalar_lists_merge_delete_and_order() -> None:
    doc = {"metadata": {"finalizers": ["a/1", "b/2"]}}
    change = {"metadata": {"finalizers": ["c/3"]}}
    assert strategic_merge(doc, change, POD)["metadata"]["finalizers"] == ["c/3", "a/1", "b/2"]
    change = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/1"]}}
    assert strategic_merge(doc, change, POD)["metadata"]["finalizers"] == ["b/2"]
    change = {
        "metadata": {
            "finalizers": ["c/3"],
            "$setElementOrder/finalizers": ["c/3", "b/2"],
            "$deleteFromPrimitiveList/finalizers": ["a/1"],
        }
    }
    assert strategic_merge(doc, change, POD)["metadata"]["finalizers"] == ["c/3", "b/2"]


def test_retain_keys_drops_the_rest() -> None:
    doc = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    change: dict[str, Any] = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    result = strategic_merge(doc, change, DEPLOYMENT)
    assert result == {"spec": {"strategy": {"type": "Recreate"}}}
    volumes = [{"name": "v", "emptyDir": {}}]
    change = {
        "volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}]
    }
    assert patched({"volumes": volumes}, change)["volumes"] == [
        {"name": "v", "hostPath": {"path": "/"}}
    ]


def test_new_values_only_obey_the_patch_directive() -> None:
    change = {
        "volumes": [{"name": "v", "emptyDir": {"$patch": "replace"}}],
        "securityContext": {"$retainKeys": ["runAsUser"], "runAsUser": 1},
        "$setElementOrder/containers": [],
    }
    # The others are unknown fields, as they are upstream.
    assert patched({}, change) == {
        "volumes": [{"name": "v"}],
        "securityContext": {"$retainKeys": ["runAsUser"], "runAsUser": 1},
    }


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (
            {"containers": [{"image": "x"}]},
            500,
            "map: map[image:x] does not contain declared merge key: name",
        ),
        (
            {"containers": [{"$patch": "delete"}]},
            500,
            "map: map[$patch:delete] does not contain declared merge key: name",
        ),
        (
            {"containers": [{"name": "a", "$patch": "burn"}]},
            500,
            "unknown patch type: burn in map: map[$patch:burn name:a]",
        ),
        (
            {"containers": [{"name": "a", "$patch": "merge"}]},
            500,
            "merging lists cannot yet be specified in the patch",
        ),
        (
            {"containers": [1]},
            500,
            (
                "list element types are not identical: "
                "[[map[env:[map[name:X value:1]] image:1 name:a] map[image:2 name:b]] [1]]"
            ),
        ),
        ({"containers": [["a"]]}, 422, "lists of lists are not supported"),
        ({"$patch": "burn"}, 500, "unknown patch type: burn in map: map[$patch:burn]"),
        ({"$retainKeys": ["a"], "hostname": "x"}, 400, "invalid patch format of retainKeys"),
        ({"$retainKeys": "a"}, 400, "invalid patch format of retainKeys"),
        (
            {"$setElementOrder/containers": {"a": 1}},
            500,
            "expected a []interface {}, but received a map[string]interface {}",
        ),
        (
            {"$setElementOrder/tolerations": [], "tolerations": []},
            500,
            "no elements in any of the given slices",
        ),
        (
            {
                "$setElementOrder/containers": [{"name": "a"}, {"name": "b"}],
                "containers": [{"name": "b"}, {"name": "a"}],
            },
            500,
            (
                "The order in patch list:\n[map[name:b] map[name:a]]\n"
                " doesn't match $setElementOrder list:\n[map[name:a] map[name:b]]\n"
            ),
        ),
    ],
)
def test_malformed_patches_are_refused(change: dict[str, Any], code: int, message: str) -> None:
    with pytest.raises(PatchError) as caught:
        patched({"containers": CONTAINERS}, change)
    assert (caught.value.code, caught.value.message) == (code, message)


specs: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "hostname": st.sampled_from(["1", "2"]),
        "nodeSelector": st.dictionaries(st.sampled_from("ab"), st.sampled_from("12")),
        "containers": st.lists(
            st.fixed_dictionaries(
                {"name": st.sampled_from("abc")},
                optional={"image": st.sampled_from("12"), "args": st.lists(st.just("x"))},
            ),
            unique_by=lambda item: item["name"],
            min_size=1,
        ),
    },
)


@settings(max_examples=60, deadline=None)
@given(specs, specs)
def test_a_patch_is_idempotent_and_does_not_change_its_arguments(old: Any, change: Any) -> None:
    before = (repr(old), repr(change))
    once = patched(old, change)
    assert patched(once, change) == once
    assert (repr(old), repr(change)) == before
    for key, item in change.items():
        if key == "containers":
            assert set(names(item)) <= set(names(once["containers"]))
        elif key == "nodeSelector":
            assert once[key] | item == once[key]
        else:
            assert once[key] == item
