"""Server-side apply and the ownership of fields."""

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from traincrew.local.apiserver import schema
from traincrew.local.apiserver.apply import apply as ssa
from traincrew.local.apiserver.apply import lastapplied, managers
from traincrew.local.apiserver.values.codec import clone

NOW = "2027-01-15T08:00:00Z"
LATER = "2027-01-15T09:00:00Z"
TEXT = {"type": "string"}
INTEGER = {"type": "integer"}

KIND = schema.from_crd(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "a": TEXT,
                    "b": TEXT,
                    "nested": {"type": "object", "properties": {"x": TEXT, "y": TEXT}},
                    "atomic": {
                        "type": "object",
                        "x-kubernetes-map-type": "atomic",
                        "properties": {"x": TEXT, "y": TEXT},
                    },
                    "map": {"type": "object", "additionalProperties": TEXT},
                    "plain": {"type": "array", "items": TEXT},
                    "set": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
                    "list": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": {
                            "type": "object",
                            "required": ["name"],
                            "properties": {"name": TEXT, "v": TEXT, "w": TEXT},
                        },
                    },
                    "ports": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["port", "protocol"],
                        "items": {
                            "type": "object",
                            "required": ["port"],
                            "properties": {
                                "port": INTEGER,
                                "protocol": TEXT | {"default": "TCP"},
                            },
                        },
                    },
                    "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            },
            "status": {"type": "object", "properties": {"phase": TEXT}},
        },
    },
    "t.io",
    "v1",
    "Thing",
)


def thing(**spec: Any) -> dict[str, Any]:
    body = {"apiVersion": "t.io/v1", "kind": "Thing", "metadata": {"name": "x"}}
    return body | ({"spec": spec} if spec else {})


def apply(live: dict[str, Any] | None, manager: str, /, **spec: Any) -> dict[str, Any]:
    return apply_body(live, manager, thing(**spec))


def apply_body(
    live: dict[str, Any] | None, manager: str, body: dict[str, Any], **options: Any
) -> dict[str, Any]:
    defaults: dict[str, Any] = {"schema": KIND, "now": NOW, "api_version": "t.io/v1"}
    return ssa.apply(live, body, manager=manager, **(defaults | options))


def update(
    old: dict[str, Any] | None, new: dict[str, Any], manager: str = "editor", **options: Any
) -> dict[str, Any]:
    defaults: dict[str, Any] = {"schema": KIND, "now": NOW, "api_version": "t.io/v1"}
    new = clone(new)
    if old is not None:
        new["metadata"].setdefault("managedFields", old["metadata"].get("managedFields", []))
    return ssa.track_update(old, new, manager=manager, **(defaults | options))


def owners(obj: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of each manager, by name and operation."""
    return {
        f"{entry['manager']} {entry['operation']}"
        + (f" {entry['subresource']}" if "subresource" in entry else ""): entry["fieldsV1"]
        for entry in obj["metadata"].get("managedFields", [])
    }


# --- apply --------------------------------------------------------------------------------------


def test_an_applier_owns_what_it_names() -> None:
    live = apply(
        None,
        "me",
        a="1",
        nested={"x": "1"},
        atomic={"x": "1"},
        map={"k": "1"},
        plain=["1"],
        set=["s"],
        list=[{"name": "n", "v": "1"}],
        ports=[{"port": 80}],
        any={"deep": {"er": 1}},
    )
    assert owners(live) == {
        "me Apply": {
            "f:spec": {
                "f:a": {},
                "f:nested": {"f:x": {}},
                "f:atomic": {},
                "f:map": {"f:k": {}},
                "f:plain": {},
                "f:set": {'v:"s"': {}},
                "f:list": {'k:{"name":"n"}': {".": {}, "f:name": {}, "f:v": {}}},
                "f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}}},
                "f:any": {"f:deep": {".": {}, "f:er": {}}},
            }
        }
    }
    (entry,) = live["metadata"]["managedFields"]
    assert entry["time"] == NOW
    assert entry["apiVersion"] == "t.io/v1"
    assert entry["fieldsType"] == "FieldsV1"


def test_two_appliers_share_what_both_want() -> None:
    live = apply(apply(None, "one", a="1"), "two", a="1", b="2")
    assert owners(live) == {
        "one Apply": {"f:spec": {"f:a": {}}},
        "two Apply": {"f:spec": {"f:a": {}, "f:b": {}}},
    }
    # One stops applying it: the other still does.
    live = apply(live, "one", nested={"x": "1"})
    assert live["spec"] == {"a": "1", "b": "2", "nested": {"x": "1"}}
    live = apply(live, "two", b="2")
    assert live["spec"] == {"b": "2", "nested": {"x": "1"}}


def test_a_conflict_names_manager_and_field() -> None:
    live = apply(None, "one", a="1", list=[{"name": "n", "v": "1"}])
    with pytest.raises(ssa.ApplyConflictError) as caught:
        apply(live, "two", a="2")
    assert caught.value.message == 'Apply failed with 1 conflict: conflict with "one": .spec.a'
    (cause,) = caught.value.causes
    assert (cause.reason, cause.field) == ("FieldManagerConflict", ".spec.a")
    assert cause.message == 'conflict with "one"'
    with pytest.raises(ssa.ApplyConflictError) as caught:
        apply(live, "two", a="2", list=[{"name": "n", "v": "2"}])
    assert caught.value.message == (
        'Apply failed with 2 conflicts: conflicts with "one":\n- .spec.a\n- .spec.list[name="n"].v'
    )


def test_a_conflict_with_an_update_names_the_operation() -> None:
    live = update(None, thing(a="1"), "kubectl-create")
    with pytest.raises(ssa.ApplyConflictError) as caught:
        apply(live, "two", a="2")
    assert caught.value.message == (
        'Apply failed with 1 conflict: conflict with "kubectl-create" using t.io/v1: .spec.a'
    )


def test_conflicts_are_sorted_as_upstream_writes_managers() -> None:
    entry = {"manager": "carol", "operation": "Update", "apiVersion": "t.io/v1"}
    error = ssa.ApplyConflictError([
        (entry, {"f:spec": {"f:a": {}}}),
        (entry | {"subresource": "status"}, {"f:metadata": {"f:labels": {"f:x": {}}}}),
        ({"manager": "bob", "operation": "Update", "apiVersion": "t.io/v1"}, {"f:spec": {}}),
        ({"manager": "carol", "operation": "Apply", "apiVersion": "t.io/v1"}, {"f:spec": {}}),
    ])  # fmt: skip
    assert error.message == (
        'Apply failed with 4 conflicts: conflicts with "bob" using t.io/v1:\n- .spec\n'
        'conflicts with "carol":\n- .spec\n'
        'conflicts with "carol" with subresource "status" using t.io/v1:\n- .metadata.labels.x\n'
        'conflicts with "carol" using t.io/v1:\n- .spec.a'
    )


def test_force_takes_over() -> None:
    live = apply(None, "one", a="1", b="1")
    live = apply_body(live, "two", thing(a="2"), force=True)
    assert live["spec"] == {"a": "2", "b": "1"}
    assert owners(live) == {
        "one Apply": {"f:spec": {"f:b": {}}},
        "two Apply": {"f:spec": {"f:a": {}}},
    }


def test_fields_no_longer_applied_are_removed() -> None:
    live = apply(
        None, "me", a="1", nested={"x": "1", "y": "1"}, map={"k": "1"}, list=[{"name": "n"}]
    )
    live = apply(live, "me", nested={"y": "1"})
    assert live["spec"] == {"nested": {"y": "1"}}
    assert owners(live) == {"me Apply": {"f:spec": {"f:nested": {"f:y": {}}}}}
    assert "spec" not in apply(live, "me")


def test_fields_of_other_managers_below_a_removed_field_are_kept() -> None:
    live = apply(None, "me", list=[{"name": "n", "v": "1"}], nested={"x": "1"})
    edited = clone(live)
    edited["spec"]["list"][0]["w"] = "2"
    edited["spec"]["nested"]["y"] = "2"
    live = update(live, edited)
    live = apply(live, "me", a="1")
    # The applier's item is removed with everything in it; of the struct, only the applier's field.
    assert live["spec"] == {"a": "1", "nested": {"y": "2"}, "list": None}


def test_emptied_containers_are_null() -> None:
    live = apply(None, "me", nested={"x": "1"}, map={"k": "1"})
    live = apply(live, "me", nested={}, map={})
    # The server refuses it where the schema has no null, as upstream does.
    assert live["spec"] == {"nested": None, "map": None}


def test_the_shape_is_that_of_the_schema() -> None:
    def refusal(**spec: Any) -> str:
        with pytest.raises(ssa.ApplyError) as raised:
            apply(None, "me", **spec)
        assert raised.value.code == 500
        prefix, _, text = str(raised.value).partition(": ")
        assert prefix == "failed to create typed patch object (/x; t.io/v1, Kind=Thing)"
        return text

    text = "expected string, got &value.valueUnstructured{Value:%s}"
    assert refusal(c="1") == ".spec.c: field not declared in schema"
    assert refusal(a=1) == ".spec.a: " + text % 1
    assert refusal(a=["x"]) == ".spec.a: " + text % '[]interface {}{"x"}'
    assert refusal(nested="x") == ".spec.nested: expected map, got &{x}"
    assert refusal(plain={"k": 1}) == ".spec.plain: expected list, got &{map[k:1]}"
    assert refusal(plain=["x", 1]) == ".spec.plain[1]: " + text % 1
    assert refusal(ports=[{"port": "x"}]) == (
        '.spec.ports[port="x",protocol="TCP"].port: expected numeric (int or float), got string'
    )
    assert refusal(set=[["x"]]) == (
        ".spec.set: element 0: not supported: associative list with lists as elements"
    )


def test_lists_keep_the_live_order_of_items_not_applied() -> None:
    names = [{"name": name} for name in "abcd"]
    live = update(None, thing(list=names))
    live = apply(live, "me", list=[{"name": "d"}, {"name": "new"}, {"name": "b"}])
    assert [item["name"] for item in live["spec"]["list"]] == ["a", "c", "d", "new", "b"]


def test_items_without_key_and_duplicates_are_refused() -> None:
    with pytest.raises(ssa.ApplyError, match=r"element 0: .* omits all key fields \[\"name\"\]"):
        apply(None, "me", list=[{"v": "1"}])
    with pytest.raises(ssa.ApplyError, match=r'duplicate entries for key \[name="a"\]'):
        apply(None, "me", list=[{"name": "a"}, {"name": "a"}])
    with pytest.raises(ssa.ApplyError, match=r"\.spec\.ports: duplicate entries for key"):
        apply(None, "me", ports=[{"port": 1}, {"port": 1, "protocol": "TCP"}])
    body = thing(a="1")
    body["metadata"]["managedFields"] = [{}]
    with pytest.raises(ssa.ApplyError, match=r"metadata\.managedFields must be nil"):
        apply_body(None, "me", body)


def test_the_time_of_an_entry_changes_only_with_its_fields() -> None:
    live = apply(None, "me", a="1")
    same = apply_body(live, "me", thing(a="1"), now=LATER)
    assert same == live
    other = apply_body(live, "me", thing(a="2"), now=LATER)
    assert other["metadata"]["managedFields"][0]["time"] == LATER


def test_the_first_apply_to_an_untracked_object_adds_before_first_apply() -> None:
    live = apply(thing(a="1", b="1"), "me", a="1")
    assert owners(live) == {
        "me Apply": {"f:spec": {"f:a": {}}},
        "before-first-apply Update": {"f:spec": {".": {}, "f:a": {}, "f:b": {}}},
    }


def test_status_is_applied_through_its_subresource_only() -> None:
    live = apply(None, "me", a="1")
    body = thing(a="2") | {"status": {"phase": "Ready"}}
    live = apply_body(live, "me", body, subresource="status")
    assert live["status"] == {"phase": "Ready"}
    assert owners(live) == {
        "me Apply": {"f:spec": {"f:a": {}}},
        "me Apply status": {"f:status": {"f:phase": {}}},
    }
    again = apply_body(live, "me", thing(a="1") | {"status": {"phase": "Other"}})
    assert owners(again) == owners(live)


def test_fields_of_the_server_have_no_owner() -> None:
    body = thing(a="1")
    body["metadata"] |= {"uid": "u", "resourceVersion": "7", "creationTimestamp": NOW}
    assert owners(apply_body(None, "me", body)) == {"me Apply": {"f:spec": {"f:a": {}}}}
    assert owners(update(None, body)) == {"editor Update": {"f:spec": {".": {}, "f:a": {}}}}


def test_a_first_apply_that_changes_nothing_has_no_time() -> None:
    live = apply(None, "me", a="1")
    live = apply(live, "other", a="1")
    times = {entry["manager"]: entry.get("time") for entry in live["metadata"]["managedFields"]}
    assert times == {"me": NOW, "other": None}


def test_kubectl_takes_over_what_its_client_side_apply_wrote() -> None:
    body = thing(a="1", b="1")
    annotation = '{"apiVersion":"t.io/v1","kind":"Thing","spec":{"a":"1","b":"1"}}'
    body["metadata"]["annotations"] = {lastapplied.LAST_APPLIED: annotation}
    live = update(None, body, "kubectl-client-side-apply")
    changed = apply_body(live, "kubectl", thing(a="2", b="1"))
    assert changed["spec"] == {"a": "2", "b": "1"}
    assert '"a":"2"' in changed["metadata"]["annotations"][lastapplied.LAST_APPLIED]
    with pytest.raises(ssa.ApplyConflictError):
        apply_body(live, "somebody", thing(a="2"))


def test_built_in_lists_have_upstreams_keys() -> None:
    deployment = schema.load_builtin("apps", "v1", "Deployment")
    container = {
        "name": "main",
        "image": "a",
        "env": [{"name": "A", "value": "1"}],
        "ports": [{"containerPort": 80}],
        "args": ["x"],
    }
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "labels": {"a": "b"}},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"spec": {"containers": [container], "nodeSelector": {"k": "v"}}},
        },
    }
    live = apply_body(None, "me", body, schema=deployment, api_version="apps/v1")
    inner: dict[str, Any] = {
        ".": {},
        "f:name": {},
        "f:image": {},
        "f:env": {'k:{"name":"A"}': {".": {}, "f:name": {}, "f:value": {}}},
        "f:ports": {'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}},
        "f:args": {},
    }
    assert owners(live)["me Apply"] == {
        "f:metadata": {"f:labels": {"f:a": {}}},
        "f:spec": {
            "f:selector": {},  # atomic
            "f:template": {
                "f:spec": {
                    "f:containers": {'k:{"name":"main"}': inner},
                    "f:nodeSelector": {},  # atomic
                }
            },
        },
    }


# --- updates ------------------------------------------------------------------------------------


def test_the_creator_owns_a_created_object() -> None:
    live = update(None, thing(a="1", list=[{"name": "n"}]), "kubectl-create")
    assert owners(live) == {
        "kubectl-create Update": {
            "f:spec": {
                ".": {},
                "f:a": {},
                "f:list": {".": {}, 'k:{"name":"n"}': {".": {}, "f:name": {}}},
            }
        }
    }


def test_structs_of_built_in_kinds_have_no_owner() -> None:
    pod = schema.load_builtin("", "v1", "Pod")
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"a": "b"}},
        "spec": {"containers": [{"name": "a", "resources": {}}], "securityContext": {}},
        "status": {"phase": "Pending"},
    }
    live = update(None, body, "me", schema=pod, api_version="v1")
    assert owners(live)["me Update"] == {
        "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
        "f:spec": {
            "f:containers": {'k:{"name":"a"}': {".": {}, "f:name": {}, "f:resources": {}}},
            "f:securityContext": {},
        },
    }


def test_an_update_owns_what_it_changes_and_disowns_what_it_removes() -> None:
    live = apply(None, "me", a="1", b="1", map={"k": "1", "l": "1"})
    edited = clone(live)
    edited["spec"] |= {"a": "2", "map": {"l": "1"}}
    live = update(live, edited, now=LATER)
    assert owners(live) == {
        "me Apply": {"f:spec": {"f:b": {}, "f:map": {"f:l": {}}}},
        "editor Update": {"f:spec": {"f:a": {}}},
    }
    assert [entry["time"] for entry in live["metadata"]["managedFields"]] == [NOW, LATER]


def test_an_update_that_changes_nothing_changes_no_owner() -> None:
    live = apply(None, "me", a="1")
    assert update(live, live, now=LATER) == live


def test_untracked_objects_stay_untracked() -> None:
    assert "managedFields" not in update(thing(a="1"), thing(a="2"))["metadata"]


def test_managed_fields_can_be_reset_and_replaced_by_the_client() -> None:
    live = apply(None, "me", a="1")
    reset = thing(a="1")
    reset["metadata"]["managedFields"] = [{}]
    assert "managedFields" not in update(live, reset)["metadata"]
    renamed = clone(live)
    renamed["metadata"]["managedFields"][0]["manager"] = "other"
    assert list(owners(update(live, renamed))) == ["other Apply"]
    broken = clone(live)
    broken["metadata"]["managedFields"][0]["operation"] = "Guess"
    assert list(owners(update(live, broken))) == ["me Apply"]


def test_a_status_update_cannot_touch_other_owners() -> None:
    live = apply(None, "me", a="1")
    changed = clone(live) | {"status": {"phase": "Ready"}}
    changed["metadata"]["managedFields"] = [{}]
    live = update(live, changed, "controller", subresource="status")
    assert owners(live) == {
        "me Apply": {"f:spec": {"f:a": {}}},
        "controller Update status": {"f:status": {".": {}, "f:phase": {}}},
    }


def test_types_may_change_where_any_type_is_allowed() -> None:
    live = update(None, thing(any={"k": 1}))
    live = update(live, thing(any={"k": {"deep": 1}}), "two")
    assert owners(live)["two Update"] == {"f:spec": {"f:any": {"f:k": {".": {}, "f:deep": {}}}}}
    live = update(live, thing(any={"k": [1]}), "three")
    assert owners(live)["three Update"] == {"f:spec": {"f:any": {"f:k": {}}}}
    assert "two Update" not in owners(live)
    live = update(live, thing(any={"k": True}), "four")
    assert "three Update" not in owners(live)
    assert "four Update" not in owners(update(live, thing(any={"k": 1}), "five"))


def test_many_updaters_are_merged_oldest_first() -> None:
    live = update(None, thing(map={"k0": "0"}), "m0")
    for index in range(1, 13):
        spec = {f"k{number}": str(number) for number in range(index + 1)}
        moment = f"2027-01-15T08:{index:02}:00Z"
        live = update(live, thing(map=spec), f"m{index}", now=moment)
    entries = live["metadata"]["managedFields"]
    assert len(entries) == 10
    oldest = owners(live)["ancient-changes Update"]
    assert oldest["f:spec"]["f:map"].keys() == {".", "f:k0", "f:k1", "f:k2", "f:k3"}


# --- properties ---------------------------------------------------------------------------------

value = st.sampled_from(["1", "2"])
specs: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "a": value,
        "b": value,
        "nested": st.fixed_dictionaries({}, optional={"x": value, "y": value}),
        "atomic": st.fixed_dictionaries({}, optional={"x": value, "y": value}),
        "map": st.dictionaries(st.sampled_from("kl"), value),
        "plain": st.lists(value, max_size=2),
        # Not empty: an empty set is not owned and may be removed with its struct.
        "set": st.lists(st.sampled_from("stu"), unique=True, min_size=1),
        "list": st.lists(
            st.fixed_dictionaries({"name": st.sampled_from("mno")}, optional={"v": value}),
            unique_by=lambda item: item["name"],
            min_size=1,
        ),
    },
)
steps = st.lists(
    st.tuples(st.sampled_from(["apply", "update"]), st.sampled_from(["one", "two"]), specs),
    min_size=1,
    max_size=6,
)


def run_history(history: list[tuple[str, str, dict[str, Any]]]) -> dict[str, Any]:
    live: dict[str, Any] | None = None
    for operation, manager, spec in history:
        if operation == "apply":
            live = apply_body(live, manager, thing(**spec), force=True)
        else:
            live = update(live, thing(**spec), manager)
        live["metadata"]["uid"] = "u"
    assert live is not None
    return live


def contains(obj: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return isinstance(obj, dict) and all(
            key in obj and contains(obj[key], item) for key, item in wanted.items()
        )
    if isinstance(wanted, list) and wanted and isinstance(wanted[0], dict):
        by_name = {item["name"]: item for item in obj}
        return all(contains(by_name.get(item["name"]), item) for item in wanted)
    return bool(obj == wanted)


def settled(spec: dict[str, Any]) -> dict[str, Any]:
    """Remove empty containers: where there was a value before, they become null."""
    return {key: item for key, item in spec.items() if item not in ({}, [])}


@settings(max_examples=60, deadline=None)
@given(steps, specs)
def test_applying_twice_is_applying_once(history: Any, spec: dict[str, Any]) -> None:
    spec = settled(spec)
    live = apply_body(run_history(history), "one", thing(**spec), force=True)
    # Without any manager the next apply records what is there, as upstream ("before-first-apply").
    assume(live["metadata"].get("managedFields"))
    assert apply_body(live, "one", thing(**spec), now=LATER) == live


@settings(max_examples=60, deadline=None)
@given(steps, specs)
def test_what_is_applied_is_there(history: Any, spec: dict[str, Any]) -> None:
    spec.pop("set", None)  # sets keep the values of others
    spec = settled(spec)
    live = apply_body(run_history(history), "one", thing(**spec), force=True)
    # The same goes for spec itself.
    assert contains(live.get("spec") or {}, spec)


@settings(max_examples=60, deadline=None)
@given(steps, specs)
def test_a_conflict_changes_nothing_and_is_what_force_overrides(
    history: Any, spec: dict[str, Any]
) -> None:
    live = run_history(history)
    before = clone(live)
    conflict = result = None
    try:
        result = apply_body(live, "three", thing(**spec))
    except ssa.ApplyConflictError as error:
        conflict = error
    forced = apply_body(live, "three", thing(**spec), force=True)
    assert conflict is not None or result == forced
    assert conflict is None or conflict.causes
    assert live == before


@settings(max_examples=60, deadline=None)
@given(steps)
def test_a_withdrawn_apply_restores_the_object(history: Any) -> None:
    """A new manager that applies and then applies nothing leaves the object as it was."""
    live = run_history(history)
    if not live["metadata"].get("managedFields"):
        return  # the first apply starts tracking
    extra = apply_body(live, "guest", thing(any={"guest": "here"}))
    assert extra["spec"]["any"] == {"guest": "here"}
    back = apply_body(extra, "guest", thing())
    assert back.get("spec", {}) == live.get("spec", {})
    assert owners(back) == owners(live)


@pytest.mark.parametrize(
    "fields",
    [
        {"f:spec": "x"},
        {"f:spec": {"f:a": 1}},
        {"f:spec": {"f:a": {}, "f:b": None}},
        {"f:metadata": {"f:labels": []}},
        "x",
        None,
        [],
    ],
    ids=str,
)
def test_managed_fields_of_another_structure_are_not_readable(fields: Any) -> None:
    """A client may send anything; the server ignores what it cannot read."""
    entry = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}

    assert managers.readable([{**entry, "fieldsV1": {"f:spec": {"f:a": {}}}}])
    assert managers.readable([{**entry, "fieldsV1": fields}]) is None
