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


@pytest.mark.parametrize(
    ("subject", "ready", "status"),
    [
        (pod({"phase": "Pending"}), "0/1", "Pending"),
        (pod({"phase": "Failed", "reason": "Evicted"}), "0/1", "Evicted"),
        (
            pod({"phase": "Running", "containerStatuses": [container(True, running={})]}),
            "1/1",
            "Running",
        ),
        (
            pod(
                {
                    "phase": "Pending",
                    "containerStatuses": [container(waiting={"reason": "ContainerCreating"})],
                }
            ),
            "0/1",
            "ContainerCreating",
        ),
        (
            pod(
                {
                    "phase": "Succeeded",
                    "containerStatuses": [container(terminated=terminated(0, "Completed"))],
                }
            ),
            "0/1",
            "Completed",
        ),
        (
            pod({"phase": "Failed", "containerStatuses": [container(terminated=terminated(3))]}),
            "0/1",
            "ExitCode:3",
        ),
        (
            pod(
                {
                    "phase": "Failed",
                    "containerStatuses": [container(terminated={"exitCode": 137, "signal": 9})],
                }
            ),
            "0/1",
            "Signal:9",
        ),
        (
            pod(
                {"phase": "Pending", "initContainerStatuses": [container(running={})]},
                {"initContainers": [{"name": "a"}, {"name": "b"}]},
            ),
            "0/1",
            "Init:0/2",
        ),
        (
            pod(
                {
                    "phase": "Pending",
                    "initContainerStatuses": [container(terminated=terminated(1, "Error"))],
                },
                {"initContainers": [{"name": "a"}]},
            ),
            "0/1",
            "Init:Error",
        ),
        (
            pod(
                {
                    "phase": "Running",
                    "initContainerStatuses": [container(True, running={}) | {"started": True}],
                    "containerStatuses": [container(True, running={})],
                },
                {"initContainers": [{"name": "a", "restartPolicy": "Always"}]},
            ),
            "2/2",
            "Running",
        ),
        (pod({"phase": "Running"}, deletionTimestamp=CREATED), "0/1", "Terminating"),
        (
            pod({"phase": "Succeeded"}, deletionTimestamp=CREATED),
            "0/1",
            "Succeeded",
        ),
        (
            pod(
                {
                    "phase": "Pending",
                    "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}],
                }
            ),
            "0/1",
            "SchedulingGated",
        ),
    ],
)
def test_pod_states(subject: dict[str, Any], ready: str, status: str) -> None:
    row = shown("", "Pod", subject)
    assert (row["Ready"], row["Status"], row["Age"]) == (ready, status, "5m")


def test_restarts_show_the_age_of_the_last_one() -> None:
    status = container(restarts=3, waiting={"reason": "CrashLoopBackOff"})
    status["lastState"] = {"terminated": {"finishedAt": "2027-01-15T07:59:30Z"}}
    row = shown("", "Pod", pod({"phase": "Running", "containerStatuses": [status]}))
    assert row["Restarts"] == "3 (30s ago)"
    assert row["Status"] == "CrashLoopBackOff"


def test_wide_pods() -> None:
    row = shown(
        "",
        "Pod",
        pod(
            {
                "phase": "Running",
                "podIPs": [{"ip": "127.0.0.9"}],
                "conditions": [{"type": "g", "status": "True"}],
            },
            {"nodeName": "n", "readinessGates": [{"conditionType": "g"}, {"conditionType": "h"}]},
        ),
        wide=True,
    )
    assert row["IP"] == "127.0.0.9"
    assert row["Node"] == "n"
    assert row["Nominated Node"] == "<none>"
    assert row["Readiness Gates"] == "1/2"


# --- everything else ----------------------------------------------------------------------------

ROWS = [
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
        "apps",
        "StatefulSet",
        obj(spec={"replicas": 3, "template": TEMPLATE}, status={"readyReplicas": 2}),
        {"Ready": "2/3", "Age": "5m", "Containers": "a,b", "Images": "i:1,j"},
    ),
    (
        "apps",
        "Deployment",
        obj(
            spec={"replicas": 2, "template": TEMPLATE, "selector": SELECTOR},
            status={"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1},
        ),
        {"Ready": "1/2", "Up-to-date": 2, "Available": 1} | IN_TEMPLATE,
    ),
    (
        "apps",
        "ReplicaSet",
        obj(
            spec={"replicas": 2, "template": TEMPLATE, "selector": SELECTOR},
            status={"replicas": 2, "readyReplicas": 1},
        ),
        {"Desired": 2, "Current": 2, "Ready": 1} | IN_TEMPLATE,
    ),
    (
        "",
        "ReplicationController",
        obj("ReplicationController", spec={"replicas": 1, "selector": {"app": "x"}}),
        {"Desired": 1, "Current": 0, "Ready": 0, "Selector": "app=x"},
    ),
    (
        "apps",
        "DaemonSet",
        obj(status={"desiredNumberScheduled": 2, "numberReady": 1}),
        {"Desired": 2, "Current": 0, "Ready": 1, "Node Selector": "<none>"},
    ),
    (
        "",
        "Service",
        obj(
            spec={
                "type": "ClusterIP",
                "clusterIP": "127.1.0.1",
                "clusterIPs": ["127.1.0.1"],
                "ports": [
                    {"port": 80, "protocol": "TCP"},
                    {"port": 53, "protocol": "UDP", "nodePort": 30053},
                ],
                "selector": {"a": "b"},
            }
        ),
        {
            "Type": "ClusterIP",
            "Cluster-IP": "127.1.0.1",
            "External-IP": "<none>",
            "Port(s)": "80/TCP,53:30053/UDP",
            "Selector": "a=b",
        },
    ),
    (
        "",
        "Service",
        obj(spec={"type": "ExternalName", "externalName": "a.b"}),
        {"Cluster-IP": "<none>", "External-IP": "a.b", "Port(s)": "<none>"},
    ),
    (
        "",
        "Service",
        obj(spec={"type": "LoadBalancer"}),
        {"External-IP": "<pending>"},
    ),
    ("", "ConfigMap", obj(data={"a": "b"}, binaryData={"c": "ZA=="}), {"Data": 2, "Age": "5m"}),
    ("", "Secret", obj(type="Opaque", data={"a": "Yg=="}), {"Type": "Opaque", "Data": 1}),
    ("", "ServiceAccount", obj(), {"Name": "x", "Age": "5m"}),
    ("", "Namespace", obj(status={"phase": "Active"}), {"Status": "Active"}),
    (
        "",
        "Node",
        obj(
            spec={"unschedulable": True},
            status={
                "conditions": [{"type": "Ready", "status": "True"}],
                "nodeInfo": {
                    "kubeletVersion": "v1.36.0",
                    "osImage": "Debian",
                    "kernelVersion": "6.1",
                    "architecture": "amd64",
                    "containerRuntimeVersion": "traincrew://1",
                },
                "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            },
        ),
        {
            "Status": "Ready,SchedulingDisabled",
            "Roles": "<none>",
            "Version": "v1.36.0",
            "Internal-IP": "127.0.0.1",
            "External-IP": "<none>",
            "Kernel-Version": "6.1 (amd64)",
        },
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
        "coordination.k8s.io",
        "Lease",
        obj(spec={"holderIdentity": "me"}),
        {"Holder": "me", "Age": "5m"},
    ),
    (
        "rbac.authorization.k8s.io",
        "RoleBinding",
        obj(
            roleRef={"kind": "Role", "name": "r"},
            subjects=[
                {"kind": "User", "name": "u"},
                {"kind": "ServiceAccount", "name": "s", "namespace": "d"},
            ],
        ),
        {"Role": "Role/r", "Users": "u", "Groups": "", "ServiceAccounts": "d/s"},
    ),
    (
        "rbac.authorization.k8s.io",
        "Role",
        obj(),
        {"Name": "x", "Created At": CREATED},
    ),
    ("apiextensions.k8s.io", "CustomResourceDefinition", obj(), {"Created At": CREATED}),
    (
        "policy",
        "PodDisruptionBudget",
        obj(spec={"minAvailable": "50%"}, status={"disruptionsAllowed": 1}),
        {"Min Available": "50%", "Max Unavailable": "N/A", "Allowed Disruptions": 1},
    ),
    (
        "",
        "Endpoints",
        obj(
            subsets=[
                {
                    "addresses": [{"ip": f"10.0.0.{index}"} for index in range(5)],
                    "ports": [{"port": 80}],
                }
            ]
        ),
        {"Endpoints": "10.0.0.0:80,10.0.0.1:80,10.0.0.2:80 + 2 more..."},
    ),
    ("", "Endpoints", obj(), {"Endpoints": "<none>"}),
    (
        "discovery.k8s.io",
        "EndpointSlice",
        obj(
            addressType="IPv4",
            endpoints=[{"addresses": ["10.0.0.1"]}],
            ports=[{"name": "", "port": 80}],
        ),
        {"AddressType": "IPv4", "Ports": "80", "Endpoints": "10.0.0.1"},
    ),
    (
        "apps",
        "ControllerRevision",
        obj(revision=2)
        | {
            "metadata": {
                "name": "x",
                "creationTimestamp": CREATED,
                "ownerReferences": [
                    {
                        "apiVersion": "apps/v1",
                        "kind": "StatefulSet",
                        "name": "s",
                        "controller": True,
                    }
                ],
            }
        },
        {"Controller": "statefulset.apps/s", "Revision": 2},
    ),
    (
        "",
        "PersistentVolumeClaim",
        obj(
            spec={"volumeName": "v", "volumeMode": "Filesystem"},
            status={
                "phase": "Bound",
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "1Gi"},
            },
        ),
        {"Status": "Bound", "Volume": "v", "Capacity": "1Gi", "Access Modes": "RWO"},
    ),
    (
        "",
        "PersistentVolume",
        obj(
            spec={
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
                "claimRef": {"namespace": "d", "name": "c"},
            },
            status={"phase": "Bound"},
        ),
        {"Capacity": "1Gi", "Access Modes": "RWO,RWX", "Claim": "d/c", "Status": "Bound"},
    ),
    (
        "batch",
        "CronJob",
        obj(spec={"schedule": "* * * * *", "suspend": False}),
        {"Schedule": "* * * * *", "Suspend": "False", "Active": 0, "Last Schedule": "<none>"},
    ),
    (
        "networking.k8s.io",
        "Ingress",
        obj(spec={"rules": [{"host": "a.b"}], "tls": [{}]}),
        {"Class": "<none>", "Hosts": "a.b", "Ports": "80, 443"},
    ),
    (
        "scheduling.k8s.io",
        "PriorityClass",
        obj(value=7),
        {"Value": 7, "Global-Default": False},
    ),
    (
        "storage.k8s.io",
        "StorageClass",
        obj(provisioner="p"),
        {"Provisioner": "p", "ReclaimPolicy": "Delete"},
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
