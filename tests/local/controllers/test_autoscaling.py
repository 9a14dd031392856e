"""HorizontalPodAutoscalers: proposals, limits, conditions; and one that scales a Deployment."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from local.controlplane import control_plane, template
from traincrew.engine.objects import AnyObject
from traincrew.engine.resources import DEPLOYMENTS, PODS
from traincrew.local.apiserver.http.node_backend import ContainerUsage, PodUsage, Usage
from traincrew.local.controllers.autoscaling.limits import History, Note, limit
from traincrew.local.controllers.autoscaling.metrics import (
    MetricError,
    Sample,
    Seen,
    Tolerances,
    propose,
    samples_of,
)
from traincrew.local.controllers.autoscaling.plan import (
    AUTOSCALERS,
    Observed,
    Plan,
    plan_autoscaler,
    rescaled,
    scale_failed,
)
from traincrew.local.controllers.common import find_condition, format_time

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from local.controlplane import World

NOW = 1_700_000_000.0
HALF = {"type": "Utilization", "averageUtilization": 50}
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": HALF}}


def pod(name: str, *, phase: str = "Running", ready: bool = True, age: float = 3600) -> AnyObject:
    condition = {
        "type": "Ready",
        "status": "True" if ready else "False",
        "lastTransitionTime": format_time(NOW - age + 1),
    }
    resources = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {"containers": [{"name": "main", "image": "a", "resources": resources}]},
            "status": {
                "phase": phase,
                "startTime": format_time(NOW - age),
                "conditions": [condition],
            },
        },
        AnyObject,
    )


def used(milli: int, *, memory: int = 0, at: float = NOW) -> Sample:
    return Sample(at, 15.0, {"main": {"cpu": milli, "memory": memory * 1000}})


def seen(current: int, pods: list[AnyObject], samples: dict[str, Sample]) -> Seen:
    return Seen(current, pods, samples, Tolerances(), NOW)


@pytest.mark.parametrize(
    ("milli", "expected", "utilization"),
    [
        ([50, 50], 2, 50),
        ([54, 55], 2, 54),  # within the tolerance
        ([60, 61], 3, 60),
        ([100, 100], 4, 100),
        ([10, 10], 1, 10),
        ([0, 100], 2, 50),
    ],
)
def test_replicas_follow_the_utilization(milli: list[int], expected: int, utilization: int) -> None:
    pods = [pod(f"p{number}") for number in range(len(milli))]
    samples = {f"p{number}": used(value) for number, value in enumerate(milli)}
    proposal = propose(CPU, seen(2, pods, samples))
    assert proposal.replicas == expected
    assert proposal.name == "cpu resource utilization (percentage of request)"
    current = proposal.status["resource"]["current"]
    assert current["averageUtilization"] == utilization


def test_an_average_value_needs_no_requests() -> None:
    target = {"type": "AverageValue", "averageValue": "64Mi"}
    metric = {"type": "Resource", "resource": {"name": "memory", "target": target}}
    samples = {"a": used(0, memory=128 << 20), "b": used(0, memory=128 << 20)}
    proposal = propose(metric, seen(2, [pod("a"), pod("b")], samples))
    assert proposal.replicas == 4
    assert proposal.status["resource"]["current"] == {"averageValue": "128Mi"}


def test_one_container_may_count_alone() -> None:
    metric = {
        "type": "ContainerResource",
        "containerResource": {"name": "cpu", "container": "main", "target": HALF},
    }
    sample = Sample(NOW, 15.0, {"main": {"cpu": 100}, "side": {"cpu": 900}})
    proposal = propose(metric, seen(1, [pod("a")], {"a": sample}))
    assert proposal.replicas == 2
    assert proposal.status["containerResource"]["container"] == "main"


@pytest.mark.parametrize(
    ("pods", "samples", "expected"),
    [
        # A pod without metrics is idle if the number would rise ...
        ([pod("a"), pod("b")], {"a": used(100)}, 2),
        ([pod("a"), pod("b")], {"a": used(300)}, 6),
        # ... and busy if it would fall.
        ([pod("a"), pod("b")], {"a": used(10)}, 2),
        # A pod that is not ready counts as idle.
        ([pod("a"), pod("b", phase="Pending")], {"a": used(100)}, 2),
        # A new one, too, until it has been measured for a window.
        ([pod("a"), pod("b", age=10)], {"a": used(100), "b": used(900)}, 2),
        ([pod("a"), pod("b", age=10)], {"a": used(100), "b": used(900, at=NOW + 10)}, 20),
        # One that has ended does not count.
        ([pod("a"), pod("b", phase="Failed")], {"a": used(100), "b": used(900)}, 2),
    ],
)
def test_what_is_unknown_makes_no_change_larger(
    pods: list[AnyObject], samples: dict[str, Sample], expected: int
) -> None:
    assert propose(CPU, seen(2, pods, samples)).replicas == expected


@pytest.mark.parametrize(
    ("pods", "samples", "message"),
    [
        ([], {"a": used(1)}, "no pods returned by selector while calculating replica count"),
        ([pod("a")], {}, "unable to get metrics for resource cpu: no metrics returned from"),
        (
            [pod("a", phase="Pending")],
            {"a": used(1)},
            "did not receive metrics for targeted pods (pods might be unready)",
        ),
    ],
)
def test_why_there_is_no_proposal(
    pods: list[AnyObject], samples: dict[str, Sample], message: str
) -> None:
    with pytest.raises(MetricError) as raised:
        propose(CPU, seen(1, pods, samples))
    assert str(raised.value).startswith(f"failed to get cpu utilization: {message}")


def test_a_pod_needs_a_request() -> None:
    bare = pod("a")
    bare.spec["containers"][0].pop("resources")
    with pytest.raises(MetricError, match="missing request for cpu in container main of Pod a"):
        propose(CPU, seen(1, [bare], {"a": used(1)}))


def test_samples_are_read_from_metrics() -> None:
    item = {
        "metadata": {"name": "a"},
        "timestamp": "2023-11-14T22:13:20Z",
        "window": "1m2.5s",
        "containers": [{"name": "main", "usage": {"cpu": "1500001n", "memory": "1Ki"}}],
    }
    assert samples_of([item]) == {"a": Sample(NOW, 62.5, {"main": {"cpu": 2, "memory": 1_024_000}})}


# -- limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("current", "wanted", "expected", "limited"),
    [
        (3, 5, 5, "DesiredWithinRange"),
        (1, 9, 4, "ScaleUpLimit"),
        (4, 9, 8, "ScaleUpLimit"),
        (8, 99, 10, "TooManyReplicas"),
        (3, 1, 2, "TooFewReplicas"),
    ],
)
def test_limits_without_behavior(current: int, wanted: int, expected: int, limited: str) -> None:
    found = limit({"minReplicas": 2, "maxReplicas": 10}, current, wanted, History(), NOW)
    assert (found.replicas, found.limited[0]) == (expected, limited)
    assert found.is_limited == (limited != "DesiredWithinRange")


def test_fewer_replicas_wait_for_five_minutes() -> None:
    history = History([Note(NOW, 6)])
    spec = {"minReplicas": 1, "maxReplicas": 10}
    found = limit(spec, 6, 2, history, NOW + 299)
    assert (found.replicas, found.able[0]) == (6, "ScaleDownStabilized")
    assert limit(spec, 6, 2, history, NOW + 301).replicas == 2


BEHAVIOR = {
    "scaleUp": {
        "stabilizationWindowSeconds": 60,
        "policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}],
    },
    "scaleDown": {
        "stabilizationWindowSeconds": 0,
        "policies": [
            {"type": "Percent", "value": 10, "periodSeconds": 60},
            {"type": "Pods", "value": 3, "periodSeconds": 60},
        ],
    },
}


@pytest.mark.parametrize(
    ("rule", "wanted", "expected", "limited"),
    [
        ({}, 20, 12, "ScaleUpLimit"),
        ({}, 2, 7, "ScaleDownLimit"),
        ({"selectPolicy": "Min"}, 2, 9, "ScaleDownLimit"),
        ({"selectPolicy": "Disabled"}, 2, 10, "ScaleDownLimit"),
    ],
)
def test_policies_of_behavior(
    rule: dict[str, Any], wanted: int, expected: int, limited: str
) -> None:
    behavior = {**BEHAVIOR, "scaleDown": BEHAVIOR["scaleDown"] | rule}
    spec = {"minReplicas": 1, "maxReplicas": 100, "behavior": behavior}
    found = limit(spec, 10, wanted, History(), NOW)
    assert (found.replicas, found.limited[0]) == (expected, limited)


def test_changes_of_the_period_count_and_windows_stabilize() -> None:
    spec = {"minReplicas": 1, "maxReplicas": 100, "behavior": BEHAVIOR}
    recent = History([], [Note(NOW - 30, 2)])
    assert limit(spec, 12, 20, recent, NOW).replicas == 12
    assert limit(spec, 12, 20, History([], [Note(NOW - 61, 2)]), NOW).replicas == 14
    found = limit(spec, 10, 20, History([Note(NOW - 30, 11)]), NOW)
    assert (found.replicas, found.able[0]) == (11, "ScaleUpStabilized")


def test_defaults_of_a_partial_behavior() -> None:
    spec = {"minReplicas": 1, "maxReplicas": 100, "behavior": {"scaleUp": {"selectPolicy": "Max"}}}
    assert limit(spec, 2, 50, History(), NOW).replicas == 6  # four more, or twice as many
    assert limit(spec, 10, 50, History(), NOW).replicas == 20
    held = limit(spec, 10, 5, History([Note(NOW - 100, 10)]), NOW)
    assert (held.replicas, held.able[0]) == (10, "ScaleDownStabilized")


# -- plan ----------------------------------------------------------------------------------------


def scaler(**spec: Any) -> AnyObject:
    return msgspec.convert(
        {
            "metadata": {"name": "web", "namespace": "default", "uid": "u", "generation": 1},
            "spec": {"minReplicas": 1, "maxReplicas": 5, "metrics": [CPU], **spec},
            "status": {},
        },
        AnyObject,
    )


def planned(observed: Observed, **spec: Any) -> Plan:
    return plan_autoscaler(scaler(**spec), observed, History(), NOW)


def condition(plan: Plan, kind: str) -> tuple[str, str]:
    found = find_condition(plan.status["conditions"], kind)
    assert found is not None
    return found["status"], found["reason"]


def test_a_busy_target_gets_more_replicas() -> None:
    history = History()
    observed = Observed(1, "a=b", [pod("a")], {"a": used(100)})
    plan = plan_autoscaler(scaler(), observed, history, NOW)
    assert (plan.replicas, plan.status["desiredReplicas"]) == (2, 2)
    rescaled(plan, 1, history, NOW)
    assert condition(plan, "AbleToScale") == ("True", "SucceededRescale")
    assert condition(plan, "ScalingActive") == ("True", "ValidMetricFound")
    assert condition(plan, "ScalingLimited") == ("False", "DesiredWithinRange")
    assert plan.status["lastScaleTime"] == format_time(NOW)
    (event,) = plan.events
    expected = "New size: 2; reason: cpu resource utilization (percentage of request) above target"
    assert (event.reason, event.message) == ("SuccessfulRescale", expected)
    assert history.changes == [Note(NOW, 1)]


def test_bounds_count_without_metrics() -> None:
    above = planned(Observed(9, "a=b"))
    assert (above.replicas, above.reason) == (
        5,
        "Current number of replicas above Spec.MaxReplicas",
    )
    below = planned(Observed(1, "a=b"), minReplicas=3)
    assert (below.replicas, below.reason) == (
        3,
        "Current number of replicas below Spec.MinReplicas",
    )


def test_a_target_without_replicas_is_left_alone() -> None:
    plan = planned(Observed(0, "a=b"))
    assert plan.replicas is None
    assert condition(plan, "ScalingActive") == ("False", "ScalingDisabled")


def test_missing_metrics_are_reported_in_upstreams_words() -> None:
    plan = planned(Observed(2, "a=b", failure="the server is away"))
    assert plan.replicas is None
    assert condition(plan, "ScalingActive") == ("False", "FailedGetResourceMetric")
    text = (
        "failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch"
        " metrics from resource metrics API: the server is away"
    )
    assert [(each.reason, each.message) for each in plan.events] == [
        ("FailedGetResourceMetric", text),
        (
            "FailedComputeMetricsReplicas",
            (
                "invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource"
                f" metric value: {text}"
            ),
        ),
    ]


def test_a_metric_that_fails_keeps_replicas_from_falling_only() -> None:
    custom = {"type": "Pods", "pods": {"metric": {"name": "x"}, "target": {}}}
    idle = Observed(2, "a=b", [pod("a"), pod("b")], {"a": used(10), "b": used(10)})
    held = planned(idle, metrics=[CPU, custom])
    assert held.replicas is None
    assert condition(held, "ScalingActive") == ("False", "FailedGetPodsMetric")
    busy = Observed(2, "a=b", [pod("a"), pod("b")], {"a": used(100), "b": used(100)})
    assert planned(busy, metrics=[custom, CPU]).replicas == 4


def test_a_target_needs_a_selector() -> None:
    plan = planned(Observed(2, ""))
    assert condition(plan, "ScalingActive") == ("False", "InvalidSelector")


def test_failures_of_the_scale() -> None:
    plan = scale_failed(scaler(), "not there", NOW)
    assert condition(plan, "AbleToScale") == ("False", "FailedGetScale")
    busy = planned(Observed(1, "a=b", [pod("a")], {"a": used(100)}))
    failed = scale_failed(scaler(), "refused", NOW, plan=busy)
    assert condition(failed, "AbleToScale") == ("False", "FailedUpdateScale")
    assert failed.events[-1].message.startswith("New size: 2; reason: cpu resource")


# -- in a cluster ----------------------------------------------------------------------------------


class Meter:
    """A node on which every running pod uses as much as the test says."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.cpu = 0.0

    async def usage(self) -> Usage:
        containers = {"main": ContainerUsage(self.cpu, 1 << 20)}
        at = time.time() + 60  # long enough after the pods became ready
        pods = {
            each["metadata"]["uid"]: PodUsage(1.0, containers) for each in await self._world.pods()
        }
        return Usage(at, 1.0, pods)

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} is not asked for")


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with control_plane() as running:
        yield running


async def test_an_autoscaler_scales_a_deployment(world: World) -> None:
    world.server.node = meter = Meter(world)
    meter.cpu = 0.2
    pods = template()
    pods["spec"]["containers"][0] |= {
        "name": "main",
        "resources": {"requests": {"cpu": "100m"}},
    }
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "a"}}, "template": pods}
    await world.create(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec})
    for each in await world.until_pods(2):
        name = each["metadata"]["name"]
        started = {"status": {"startTime": format_time(time.time())}}
        await world.client.patch(PODS, name, "default", patch=started, subresource="status")
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    await world.create(
        AUTOSCALERS,
        {
            "metadata": {"name": "web"},
            "spec": {"scaleTargetRef": target, "maxReplicas": 3, "metrics": [CPU]},
        },
    )
    await world.until_pods(3)
    scaled = await world.until_status(AUTOSCALERS, "web", desiredReplicas=3)
    current = scaled["status"]["currentMetrics"][0]["resource"]["current"]
    assert current == {"averageUtilization": 200, "averageValue": "200m"}
    limited = find_condition(scaled["status"]["conditions"], "ScalingLimited")
    assert limited is not None
    assert limited["reason"] == "TooManyReplicas"
    assert [reason for reason, _ in await world.events("web")][-1] != "NotEmulated"
    events = dict(await world.events("web"))
    assert events["SuccessfulRescale"].startswith("New size: 3; reason: cpu resource utilization")


async def test_an_autoscaler_of_nothing_says_so(world: World) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Nothing", "name": "web"}
    spec = {"scaleTargetRef": target, "maxReplicas": 3}
    await world.create(AUTOSCALERS, {"metadata": {"name": "web"}, "spec": spec})

    async def reported() -> Any:
        scaler = await world.get(AUTOSCALERS, "web") or {}
        return find_condition((scaler.get("status") or {}).get("conditions"), "AbleToScale")

    found = await world.until(reported)
    assert (found["status"], found["reason"]) == ("False", "FailedGetScale")
    assert 'no matches for kind "Nothing" in group "apps"' in found["message"]
