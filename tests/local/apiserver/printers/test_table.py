"""Tables as kubectl prints them, JSON paths, and ages."""

from typing import Any

import pytest

from local.apiserver.strategies import custom_resource, resource_of
from traincrew.local.apiserver.kinds import table
from traincrew.local.apiserver.kinds.strategy import ResourceType
from traincrew.local.apiserver.values.durations import human
from traincrew.local.apiserver.values.jsonpath import JsonPathError, compile_path

NOW = 1_800_000_000.0  # 2027-01-15T08:00:00Z
CREATED = "2027-01-15T07:55:00Z"


def obj(kind: str = "", **content: Any) -> dict[str, Any]:
    base: dict[str, Any] = {"metadata": {"name": "x", "creationTimestamp": CREATED}}
    return base | ({"kind": kind} if kind else {}) | content


def shown(group: str, kind: str, subject: dict[str, Any], *, wide: bool = False) -> dict[str, Any]:
    """Return the row by column name."""
    columns = table.columns(resource_of(group, kind))
    cells = table.row(resource_of(group, kind), subject, NOW)
    assert len(cells) == len(columns)
    return {
        column["name"]: cell
        for column, cell in zip(columns, cells, strict=True)
        if wide or column["priority"] == 0
    }


TEMPLATE = {"spec": {"containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "j"}]}}
SELECTOR = {"matchLabels": {"app": "x"}}
IN_TEMPLATE = {"Containers": "a,b", "Images": "i:1,j", "Selector": "app=x"}


# --- pods ---------------------------------------------------------------------------------------


def pod(status: dict[str, Any], spec: dict[str, Any] | None = None, **metadata: Any) -> Any:
    subject = obj(spec={"containers": [{"name": "a"}]} | (spec or {}), status=status)
    subject["metadata"] |= metadata
    return subject


def container(ready: bool = False, restarts: int = 0, **state: Any) -> dict[str, Any]:
    return {"name": "a", "ready": ready, "restartCount": restarts, "state": state}


def terminated(code: int, reason: str = "") -> dict[str, Any]:
    return {"exitCode": code} | ({"reason": reason} if reason else {})


def test_restarts_show_the_age_of_the_last_one() -> None:
    status = container(restarts=3, waiting={"reason": "CrashLoopBackOff"})
    status["lastState"] = {"terminated": {"finishedAt": "2027-01-15T07:59:30Z"}}
    row = shown("", "Pod", pod({"phase": "Running", "containerStatuses": [status]}))
    assert row["Restarts"] == "3 (30s ago)"
    assert row["Status"] == "CrashLoopBackOff"


# --- everything else ----------------------------------------------------------------------------

ROWS = [
    (
        "scheduling.k8s.io",
        "PodGroup",
        obj(
            spec={
                "schedulingPolicy": {"gang": {"minCount": 2}},
                "podGroupTemplateRef": {"workload": {"workloadName": "w"}},
            },
            status={"conditions": [{"type": "PodGroupScheduled", "status": "False"}]},
        ),
        {"Policy": "Gang", "Workload": "w", "Status": "Unschedulable", "Age": "5m"},
    ),
    (
        "scheduling.k8s.io",
        "PodGroup",
        obj(spec={"schedulingPolicy": {"basic": {}}, "podGroupTemplateRef": None}),
        {"Policy": "Basic", "Workload": "<none>", "Status": "Pending", "Age": "5m"},
    ),
    (
        "batch",
        "Job",
        obj(
            spec={"completions": 3, "template": TEMPLATE, "selector": SELECTOR},
            status={"succeeded": 1, "startTime": "2027-01-15T07:59:00Z"},
        ),
        {"Status": "Running", "Completions": "1/3", "Duration": "60s", "Age": "5m"} | IN_TEMPLATE,
    ),
    (
        "batch",
        "Job",
        obj(
            spec={"parallelism": 4},
            status={
                "startTime": "2027-01-15T07:00:00Z",
                "completionTime": "2027-01-15T07:02:30Z",
                "conditions": [{"type": "Complete", "status": "True"}],
            },
        ),
        {"Status": "Complete", "Completions": "0/1 of 4", "Duration": "2m30s"},
    ),
    (
        "batch",
        "Job",
        obj(spec={}, status={"conditions": [{"type": "Suspended", "status": "True"}]}),
        {"Status": "Suspended", "Completions": "0/1", "Duration": ""},
    ),
    (
        "",
        "Event",
        obj(
            lastTimestamp="2027-01-15T07:59:50Z",
            firstTimestamp="2027-01-15T07:00:00Z",
            type="Warning",
            reason="BackOff",
            involvedObject={"kind": "Pod", "name": "p", "fieldPath": "spec.containers{a}"},
            source={"component": "kubelet", "host": "n"},
            message=" text\n",
            count=7,
        ),
        {
            "Last Seen": "10s",
            "Type": "Warning",
            "Reason": "BackOff",
            "Object": "pod/p",
            "Message": "text",
            "Subobject": "spec.containers{a}",
            "Source": "kubelet, n",
            "First Seen": "60m",
            "Count": 7,
            "Name": "x",
        },
    ),
    (
        "",
        "Event",
        obj(
            eventTime="2027-01-15T07:59:58.000000Z",
            type="Normal",
            involvedObject={"kind": "Node"},
            reportingComponent="scheduler",
            series={"count": 3, "lastObservedTime": "2027-01-15T07:59:59.000000Z"},
        ),
        {"Last Seen": "1s", "Object": "node", "Source": "scheduler", "Count": 3},
    ),
    (
        "batch",
        "CronJob",
        obj(spec={"schedule": "* * * * *", "suspend": False}),
        {"Schedule": "* * * * *", "Suspend": "False", "Active": 0, "Last Schedule": "<none>"},
    ),
]


@pytest.mark.parametrize(("group", "kind", "subject", "expected"), ROWS)
def test_rows(group: str, kind: str, subject: dict[str, Any], expected: dict[str, Any]) -> None:
    row = shown(group, kind, subject, wide=True)
    assert {name: row[name] for name in expected} == expected


def test_empty_objects_of_every_kind_can_be_printed() -> None:
    from traincrew.local.apiserver.kinds.builtin import builtin_resources

    for resource in builtin_resources():
        shown(resource.group, resource.kind, obj(resource.kind), wide=True)


# --- custom resources ---------------------------------------------------------------------------


def column(path: str, kind: str = "string", **more: Any) -> dict[str, Any]:
    return {"name": "C", "type": kind, "jsonPath": path} | more


def with_columns(*columns: dict[str, Any]) -> ResourceType:
    return custom_resource(additionalPrinterColumns=list(columns))


def cell(path: str, kind: str, subject: dict[str, Any]) -> Any:
    return table.row(with_columns(column(path, kind)), subject, NOW)[1]


SUBJECT = obj(
    spec={"n": 3, "f": 1.5, "t": "text", "b": True, "list": ["a", "b"], "a-b": {"c.d": 1}},
    status={
        "conditions": [
            {"type": "Ready", "status": "False"},
            {"type": "Done", "status": "True", "weight": 2},
        ]
    },
)


@pytest.mark.parametrize(
    ("path", "kind", "expected"),
    [
        (".spec.t", "string", "text"),
        (".spec.n", "string", "3"),
        (".spec.n", "integer", 3),
        (".spec.f", "number", 1.5),
        (".spec.n", "number", 3.0),
        (".spec.b", "boolean", True),
        (".spec.t", "integer", None),
        (".spec.absent", "string", None),
        (".spec.list", "string", '["a","b"]'),
        (".spec.list[1]", "string", "b"),
        (".spec.list[-1]", "string", "b"),
        (".spec.list[*]", "string", "a"),
        (".spec.list[0:1]", "string", "a"),
        (".spec['a-b']['c.d']", "integer", 1),
        (".spec.a-b.c\\.d", "integer", 1),
        ('.status.conditions[?(@.type=="Done")].status', "string", "True"),
        (".status.conditions[?(@.type=='Nope')].status", "string", None),
        (".status.conditions[?(@.weight>1)].type", "string", "Done"),
        (".status.conditions[?(@.weight)].type", "string", "Done"),
        (".metadata.creationTimestamp", "date", "5m"),
        (".spec.t", "date", "<invalid>"),
        ("{.spec.t}", "string", "text"),
        (".status.conditions.type", "string", None),
    ],
)
def test_cells_of_custom_resources(path: str, kind: str, expected: Any) -> None:
    assert cell(path, kind, SUBJECT) == expected


@pytest.mark.parametrize("path", [".a[", ".a[?(x)]", ".a[?(@.b==c)]", ".a..b"])
def test_invalid_json_paths(path: str) -> None:
    with pytest.raises(JsonPathError, match="invalid JSON path"):
        compile_path(path)


def test_columns_of_custom_resources() -> None:
    assert [each["name"] for each in table.columns(with_columns())] == ["Name", "Age"]
    assert table.row(with_columns(), SUBJECT, NOW) == ["x", "5m"]
    (_, own) = table.columns(with_columns(column(".a", priority=1, description="why")))
    assert own == {
        "name": "C",
        "type": "string",
        "format": "",
        "description": "why",
        "priority": 1,
    }


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (330, "5m30s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 600, "3h10m"),
        (8 * 3600, "8h"),
        (47 * 3600, "47h"),
        (50 * 3600, "2d2h"),
        (8 * 86400, "8d"),
        (800 * 86400, "2y70d"),
        (9 * 365 * 86400, "9y"),
    ],
)
def test_ages(seconds: float, text: str) -> None:
    assert human(seconds) == text
