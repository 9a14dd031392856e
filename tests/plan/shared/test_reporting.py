"""What is added to pods so that they can report, and what of users it leaves alone."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from traincrew.api.meta import Owner
from traincrew.plan.shared.progress import Metric, ReportedProgress, newest
from traincrew.plan.shared.reporting import Endpoint, audience, with_reporting

OWNER = Owner(
    api_version="elastic.pytorch.org/v1alpha1",
    kind="ElasticJob",
    name="flowers",
    namespace="team",
    uid="u",
)
ENDPOINT = Endpoint(url="https://operator.crew.svc:8443", certificate="PEM\n", plural="elasticjobs")
TARGET = "elastic.pytorch.org/v1alpha1/namespaces/team/elasticjobs/flowers/status"
MOUNT = "/var/run/secrets/kubeflow/trainer"
VARIABLE = "KUBEFLOW_TRAINER_SERVER_URL"


def template(**container: Any) -> dict[str, Any]:
    main = {"name": "main", "image": "i", **container}
    return {"metadata": {}, "spec": {"containers": [{"name": "sidecar"}, main]}}


def test_what_is_added() -> None:
    before = template(env=[{"name": "A", "value": "1"}])
    given = copy.deepcopy(before)

    found = with_reporting(given, ENDPOINT, OWNER, 1)

    assert given == before
    sidecar, main = found["spec"]["containers"]
    assert sidecar == {"name": "sidecar"}
    assert main["env"] == [
        {"name": VARIABLE, "value": f"https://operator.crew.svc:8443/apis/{TARGET}"},
        {"name": "KUBEFLOW_TRAINER_SERVER_CA_CERT", "value": f"{MOUNT}/ca.crt"},
        {"name": "KUBEFLOW_TRAINER_SERVER_TOKEN", "value": f"{MOUNT}/token"},
        {"name": "A", "value": "1"},
    ]
    assert main["volumeMounts"] == [
        {"name": "kubeflow-trainer-token", "mountPath": MOUNT, "readOnly": True}
    ]
    token = {"audience": TARGET, "expirationSeconds": 3600, "path": "token"}
    field = "metadata.annotations['traincrew.dev/progress-ca']"
    items = [{"path": "ca.crt", "fieldRef": {"fieldPath": field}}]
    assert found["spec"]["volumes"] == [
        {
            "name": "kubeflow-trainer-token",
            "projected": {
                "sources": [{"serviceAccountToken": token}, {"downwardAPI": {"items": items}}]
            },
        }
    ]
    assert found["metadata"]["annotations"] == {"traincrew.dev/progress-ca": "PEM\n"}
    assert audience(OWNER.api_version, "elasticjobs", "team", "flowers") == TARGET


@pytest.mark.parametrize(
    "container",
    [
        {"env": [{"name": VARIABLE, "value": "https://mine"}]},
        {"env": [{"name": "KUBEFLOW_TRAINER_SERVER_TOKEN", "value": ""}]},
        {"volumeMounts": [{"name": "a", "mountPath": MOUNT}]},
        {"volumeMounts": [{"name": "a", "mountPath": f"{MOUNT}/"}]},
        {"volumeMounts": [{"name": "a", "mountPath": f"{MOUNT}/ca.crt"}]},
        {"volumeMounts": [{"name": "a", "mountPath": "/var/run/secrets"}]},
        {"volumeMounts": [{"name": "a", "mountPath": "/var/run/"}]},
    ],
)
def test_what_a_user_has_written_is_left_alone(container: dict[str, Any]) -> None:
    mine = template(**container)
    assert with_reporting(mine, ENDPOINT, OWNER, 1) == mine


def test_other_mounts_are_no_obstacle() -> None:
    mine = template(volumeMounts=[{"name": "a", "mountPath": "/var/run/secrets/kubeflow/trained"}])
    assert with_reporting(mine, ENDPOINT, OWNER, 1) != mine


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("spec", {"volumes": [{"name": "kubeflow-trainer-token", "emptyDir": {}}]}),
        ("metadata", {"annotations": {"traincrew.dev/progress-ca": "mine"}}),
    ],
)
def test_a_pod_with_a_name_of_ours_is_left_alone(part: str, value: dict[str, Any]) -> None:
    mine = template()
    mine[part] |= value
    assert with_reporting(mine, ENDPOINT, OWNER, 1) == mine


def test_without_endpoint_or_container_nothing_changes() -> None:
    assert with_reporting(template(), None, OWNER, 1) == template()
    assert with_reporting(template(), ENDPOINT, OWNER, None) == template()


def at(time: str, advanced: str = "", **fields: Any) -> ReportedProgress:
    """A report of this time, which advances unless the time of an earlier advance is given."""
    return ReportedProgress(last_update_time=time, last_advance_time=advanced or time, **fields)


def test_the_newest_report_counts() -> None:
    early = at("2026-01-01T00:00:00Z", percentage=10)
    late = at("2026-01-01T00:00:01Z", metrics=(Metric(name="loss", value="1"),))
    assert newest(None, None) is None
    assert newest(None, early) == early
    assert newest(early, None) == early
    assert newest(early, late) == late  # the percentage is not known any more
    assert newest(late, early) == late


LOSS = Metric(name="loss", value="0.5")
TIMES = [f"2026-01-01T00:00:0{second}Z" for second in range(3)]


@pytest.mark.parametrize(
    ("fields", "advances"),
    [
        ({"percentage": 10, "metrics": (LOSS,)}, False),
        ({"percentage": 10, "metrics": (LOSS,), "estimated_remaining_seconds": 4}, False),
        ({"percentage": 11, "metrics": (LOSS,)}, True),
        ({"percentage": 9, "metrics": (LOSS,)}, True),  # it was restarted
        ({"percentage": 10, "metrics": (Metric(name="loss", value="0.50"),)}, True),
        ({"percentage": 10}, True),
        ({"metrics": (LOSS,)}, True),
    ],
)
def test_a_report_advances_by_its_percentage_or_a_metric(
    fields: dict[str, Any], advances: bool
) -> None:
    before = at(TIMES[1], TIMES[0], percentage=10, metrics=(LOSS,))
    report = ReportedProgress(last_update_time=TIMES[2], **fields)
    found = newest(before, report)
    assert found is not None
    assert found.last_advance_time == (TIMES[2] if advances else TIMES[0])
    assert found.last_update_time == TIMES[2]


def test_the_order_of_metrics_is_no_advance() -> None:
    other = Metric(name="accuracy", value="1")
    before = at(TIMES[0], metrics=(LOSS, other))
    found = newest(before, ReportedProgress(last_update_time=TIMES[1], metrics=(other, LOSS)))
    assert found is not None
    assert found.last_advance_time == TIMES[0]
