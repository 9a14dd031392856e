"""Jobs of every kind that exceed a limit of the run policy: what the status and `why` say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from plan.chainerjob.world import ChainerWorld, plain
from plan.elasticjob.world import ElasticWorld, elastic
from plan.mpicluster.manifests import one_shot
from plan.mpicluster.world import MPIWorld
from plan.mxjob.manifests import local
from plan.mxjob.world import MxWorld
from traincrew.cli.display.objects import Job, Pod, decode
from traincrew.cli.jobview.why import Explanation, Facts, explain
from traincrew.plan.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from plan.world import World

KILLED = 137


def chainerjob(**policy: Any) -> World:
    """A ChainerJob that runs."""
    return begun(ChainerWorld(plain(runPolicy=policy)))


def elasticjob(**policy: Any) -> World:
    """An ElasticJob that runs."""
    return begun(ElasticWorld(elastic(**policy)))


def mpicluster(**policy: Any) -> World:
    """An MPICluster that runs its command."""
    world = MPIWorld(one_shot(workers=0, runPolicy=policy))
    world.start()
    world.settle()
    return world


def mxjob(**policy: Any) -> World:
    """An MxJob that runs."""
    return begun(MxWorld(local(runPolicy=policy)))


def begun(world: World) -> World:
    """Run all pods."""
    world.settle()
    world.run()
    world.settle()
    return world


STARTED = (chainerjob, elasticjob, mpicluster, mxjob)


def explained(world: World) -> Explanation:
    """What `traincrew why` says of a job."""
    job = decode(world.job, Job)
    kind = next(kind for kind in KINDS if kind.definition.kind == job.kind)
    pods = [decode(pod, Pod) for pod in world.pods.values()]
    return explain(Facts(kind=kind, job=job, pods=pods, now=world.now))


@pytest.mark.parametrize("started", STARTED)
def test_past_the_deadline(started: Callable[..., World]) -> None:
    world = started(activeDeadlineSeconds=100)
    world.pass_time(100)
    world.settle()

    assert world.conditions["Failed"]["status"] == "True"
    found = explained(world)
    assert found.cause == "deadline"
    assert found.fix.startswith("raise activeDeadlineSeconds")


@pytest.mark.parametrize("started", STARTED)
def test_past_the_backoff_limit(started: Callable[..., World]) -> None:
    world = started(backoffLimit=0)
    (_, pod), *_ = sorted(world.pods.items())
    world.end(pod, KILLED)
    world.settle()

    assert world.conditions["Failed"]["status"] == "True"
    found = explained(world)
    assert "has no retries left" in found.text or found.cause == "retries-exhausted"
