"""Requests of at most 3 MiB that are expensive to serve, for `test_budget`."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from local.apiserver.attack_bodies import (
    CONTROLLER,
    NAMED,
    OWNER,
    SAME,
    constraints,
    copies,
    deleted_items,
    deleted_values,
    doubling,
    encoded,
    field_of,
    finalizers,
    keys,
    laughs,
    listing,
    long_alias,
    long_list,
    merged_keys,
    nested,
    nested_objects,
    nested_schema,
    open_definition,
    owners,
    ports,
    projected_items,
    protobuf,
    retained,
    shifts,
    text_of,
    variables,
    volume_items,
    wide_definition,
)
from local.apiserver.support import (
    APPLY,
    DEFINITIONS,
    JSON_PATCH,
    MAPS,
    MERGE,
    PODS,
    STRATEGIC,
    WIDGETS,
    config_map,
    definition,
    pod,
    widget,
)


@dataclass
class Attack:
    """One request, and what has to be stored before.

    Attributes:
        body: the body, of at most 3 MiB.
        codes: the codes that it may be answered with.
        stored: paths and documents.
        unlimited: whether stored definitions may have rules of any estimated cost: an object may
            cost less than the estimate, and rules that are stored already are kept.
    """

    body: Callable[[], bytes]
    codes: tuple[int, ...]
    method: str = "POST"
    path: str = MAPS
    kind: str = "application/json"
    stored: tuple[tuple[str, Callable[[], Any]], ...] = ()
    unlimited: bool = False


WIDGET = '{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":'
STORED_MAP = ((MAPS, lambda: config_map("a")),)
DEFINED = ((DEFINITIONS, open_definition),)
ATTACKS = {
    "owners": Attack(owners(20_000, OWNER), (201, 413)),
    "9,900 owners": Attack(owners(9_900, OWNER), (201,)),
    "repeated owners": Attack(owners(9_900, SAME), (201,)),
    "8,000 controllers": Attack(owners(8_000, CONTROLLER), (422,)),
    "20,000 controllers": Attack(owners(20_000, CONTROLLER), (422, 413)),
    "duplicate keys": Attack(keys(NAMED, '"x":0', "}"), (201, 413)),
    "pairs of keys": Attack(keys(NAMED, '"#":0,"#":1', "}"), (413,)),
    "45,000 duplicate keys": Attack(keys(NAMED, '"x":0', "}", 45_000), (201,)),
    "22,500 labels twice": Attack(
        lambda: text_of(
            '{"metadata":{"name":"a","annotations":{',
            lambda index: f'"k{index // 2}":"v"',
            "}}}",
            45_000,
        ),
        (201, 413),
    ),
    "unknown keys": Attack(keys(NAMED, '"#":0', "}"), (201, 413)),
    "45,000 unknown keys": Attack(keys(NAMED, '"#":0', "}", 45_000), (201,)),
    "45,000 unknown keys, strict": Attack(
        keys(NAMED, '"#":0', "}", 45_000), (400,), path=f"{MAPS}?fieldValidation=Strict"
    ),
    "both, strict": Attack(
        keys(NAMED, '"#":0,"x":1', "}", 22_000), (400,), path=f"{MAPS}?fieldValidation=Strict"
    ),
    "unknown keys of a custom resource": Attack(
        keys(WIDGET + '{"size":1,', '"#":0', "}}", 45_000),
        (201,),
        path=WIDGETS,
        stored=((DEFINITIONS, definition),),
    ),
    "unknown keys, applied": Attack(
        keys('{"apiVersion":"v1","kind":"ConfigMap",' + NAMED[1:], '"#":0', "}"),
        (201, 400, 413, 500),
        "PATCH",
        f"{MAPS}/a?fieldManager=me",
        APPLY,
    ),
    "empty objects": Attack(keys(NAMED + '"x":[', "{}", "]}"), (413,)),
    "laughs": Attack(lambda: laughs(9, 9), (400,), kind="application/yaml"),
    "laughs, applied": Attack(
        lambda: laughs(9, 9), (400,), "PATCH", f"{MAPS}/a?fieldManager=me", APPLY
    ),
    "aliases of a long text": Attack(long_alias, (400, 413), kind="application/yaml"),
    "merge keys": Attack(merged_keys, (400,), kind="application/yaml"),
    "a long text in YAML": Attack(
        lambda: b'{"metadata":{"name":"a"},"data":{"a":"' + b"[" * 3_000_000,
        (400,),
        kind="application/yaml",
    ),
    "a long text in YAML, applied": Attack(
        lambda: b'{"metadata":{"name":"a"},"data":{"a":"' + b"[" * 3_000_000,
        (400,),
        "PATCH",
        f"{MAPS}/a?fieldManager=me",
        APPLY,
    ),
    "empty lines of YAML": Attack(
        lambda: b"\n" * 500_000 + b"metadata: {name: a}", (201,), kind="application/yaml"
    ),
    "doubling copies": Attack(
        doubling, (422,), "PATCH", f"{MAPS}/a", JSON_PATCH, stored=STORED_MAP
    ),
    "copies": Attack(copies, (422,), "PATCH", f"{MAPS}/a", JSON_PATCH, stored=STORED_MAP),
    "insertions at the start": Attack(
        shifts,
        (200, 422),
        "PATCH",
        f"{WIDGETS}/a",
        JSON_PATCH,
        stored=(*DEFINED, (WIDGETS, lambda: widget("a"))),
    ),
    "deleted values": Attack(
        deleted_values,
        (200,),
        "PATCH",
        f"{MAPS}/a",
        STRATEGIC,
        stored=((MAPS, lambda: config_map("a", finalizers=finalizers(5_000))),),
    ),
    "deleted items": Attack(
        deleted_items,
        (200,),
        "PATCH",
        f"{PODS}/a",
        STRATEGIC,
        stored=(
            (
                PODS,
                lambda: pod(
                    "a", containers=[{"name": "main", "image": "x", "env": variables(3_000)}]
                ),
            ),
        ),
    ),
    "retained keys": Attack(
        retained, (200, 413, 400, 422), "PATCH", f"{MAPS}/a", STRATEGIC, stored=STORED_MAP
    ),
    "nesting": Attack(lambda: nested(1_000_000), (413,)),
    "20,000 deep": Attack(lambda: nested(20_000), (400,)),
    "900 deep": Attack(lambda: nested(900), (400,)),
    "900 deep twice": Attack(
        lambda: nested_objects(900, '{"metadata":{"name":"a"},"y":1,"y":', "}"), (400,)
    ),
    "900 deep, custom": Attack(
        lambda: nested_objects(900, WIDGET, "}"), (400,), path=WIDGETS, stored=DEFINED
    ),
    "900 deep, merge patch": Attack(
        lambda: nested_objects(900, '{"spec":', "}"),
        (400,),
        "PATCH",
        f"{WIDGETS}/a",
        MERGE,
        stored=(*DEFINED, (WIDGETS, lambda: widget("a"))),
    ),
    "900 deep, applied": Attack(
        lambda: nested_objects(900, WIDGET, "}"),
        (400,),
        "PATCH",
        f"{WIDGETS}/a?fieldManager=me",
        APPLY,
        stored=DEFINED,
    ),
    "nested YAML": Attack(lambda: nested(5_000), (400,), kind="application/yaml"),
    "definition": Attack(lambda: nested_schema(300), (400,), path=DEFINITIONS),
    "invalid labels": Attack(
        keys('{"metadata":{"name":"a","labels":{', '"-#":"-"', "}}}"), (422, 413)
    ),
    "40,000 invalid labels": Attack(
        keys('{"metadata":{"name":"a","labels":{', '"-#":"-"', "}}}", 40_000), (422,)
    ),
    "invalid ports": Attack(
        keys(
            '{"metadata":{"name":"a"},"spec":{"containers":[{"name":"a","image":"a","ports":[',
            '{"containerPort":0}',
            "]}]}}",
        ),
        (422, 413),
        path=PODS,
    ),
    "45,000 labels": Attack(
        keys('{"metadata":{"name":"a","labels":{', '"k#":"v"', "}}}", 45_000), (201,)
    ),
    "items of a volume": Attack(
        lambda: long_list("volumes", volume_items, 15_000), (201,), path=f"{PODS}?dryRun=All"
    ),
    "colliding items of a volume": Attack(
        lambda: long_list("volumes", lambda count: volume_items(count, "b"), 15_000),
        (201,),
        path=f"{PODS}?dryRun=All",
    ),
    "colliding items of a projected volume": Attack(
        lambda: long_list("volumes", projected_items, 5_000), (201,), path=f"{PODS}?dryRun=All"
    ),
    "spread constraints": Attack(
        lambda: long_list("topologySpreadConstraints", constraints, 7_000),
        (201,),
        path=f"{PODS}?dryRun=All",
    ),
    "host ports": Attack(lambda: ports(15_000, "#"), (201,), path=f"{PODS}?dryRun=All"),
    "host addresses": Attack(
        lambda: ports(10_000, "1", "10.0.#.#"), (201, 422), path=f"{PODS}?dryRun=All"
    ),
    "equal ports": Attack(lambda: ports(15_000, "0"), (201,), path=f"{PODS}?dryRun=All"),
    "quota scopes": Attack(
        lambda: encoded(
            {
                "metadata": {"name": "a"},
                "spec": {
                    "hard": {f"requests.x.y/{index}": "1" for index in range(10_000)},
                    "scopes": ["NotBestEffort"] * 30_000,
                },
            }
        ),
        (201, 422),
        path="/api/v1/namespaces/default/resourcequotas",
    ),
    "selected quota scopes": Attack(
        lambda: encoded(
            {
                "metadata": {"name": "a"},
                "spec": {
                    "scopeSelector": {
                        "matchExpressions": [
                            {"scopeName": "PriorityClass", "operator": "Exists"}
                            for _ in range(14_000)
                        ]
                    }
                },
            }
        ),
        (201, 422),
        path="/api/v1/namespaces/default/resourcequotas",
    ),
    "conflicts of managers": Attack(
        lambda: text_of(
            '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{',
            lambda index: f'"k{index}":"other"',
            "}}",
            25_000,
        ),
        (409,),
        "PATCH",
        f"{MAPS}/a?fieldManager=me",
        APPLY,
        stored=((MAPS, lambda: config_map("a", {f"k{index}": "v" for index in range(25_000)})),),
    ),
    "a long path": Attack(
        lambda: encoded([{"op": "remove", "path": "/a" * 1_500_000}]),
        (422,),
        "PATCH",
        f"{MAPS}/a",
        JSON_PATCH,
        stored=STORED_MAP,
    ),
    "long paths": Attack(
        lambda: encoded([{"op": "test", "path": "/" * 200}] * 9_900),
        (422,),
        "PATCH",
        f"{MAPS}/a",
        JSON_PATCH,
        stored=STORED_MAP,
    ),
    "empty messages": Attack(
        lambda: protobuf(b"\x12\x00" * 1_400_000),
        (400, 413),
        kind="application/vnd.kubernetes.protobuf",
        path=PODS,
    ),
    "empty containers": Attack(
        lambda: protobuf(field_of(2, b"\x12\x00" * 1_400_000)),
        (400, 413, 422),
        kind="application/vnd.kubernetes.protobuf",
        path=PODS,
    ),
    "a wide definition": Attack(lambda: wide_definition(10_000), (201, 413, 422), path=DEFINITIONS),
    "items of a custom list": Attack(
        lambda: encoded(widget("a") | {"list": [{"k": index} for index in range(22_000)]}),
        (201,),
        path=WIDGETS,
        stored=((DEFINITIONS, lambda: listing("map")),),
    ),
    "values of a custom set": Attack(
        lambda: encoded(widget("a") | {"list": list(range(45_000))}),
        (201,),
        path=WIDGETS,
        stored=((DEFINITIONS, lambda: listing("set")),),
    ),
    "applied items of a custom list": Attack(
        lambda: encoded(widget("a") | {"list": [{"k": index} for index in range(11_000)]}),
        (201,),
        "PATCH",
        f"{WIDGETS}/a?fieldManager=me",
        APPLY,
        stored=((DEFINITIONS, lambda: listing("map")),),
    ),
    "a label of a large object": Attack(
        lambda: encoded({"metadata": {"labels": {"a": "b"}}}),
        (200,),
        "PATCH",
        f"{MAPS}/a",
        MERGE,
        stored=((MAPS, lambda: json.loads(owners(9_900, OWNER)())),),
    ),
    "values of a wrong type": Attack(keys(NAMED + '"data":{', '"#":0', "}}", 45_000), (400, 413)),
}
