"""What keeps a job from starting, and how the user learns of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.engine.resources import CONFIG_MAPS

from .manifests import GATE, IMAGE, WAIT, container, job
from .scenario import scenario

if TYPE_CHECKING:
    from .recording import Document
    from .stage import Stage

MISSING_IMAGE = "127.0.0.1:9/nobody/has-this:1"
"""Nothing listens there, so that pulling fails at once."""


@scenario()
async def refused(stage: Stage) -> None:
    """What the schema and its rules can see is refused by the API, with field and fix."""
    document = job("refused", workers=1)
    workers = document["spec"]["workerSets"]["ws"]
    changes: dict[str, Document] = {
        "a negative number": {"replicas": -1},
        "a text for a number": {"replicas": "two"},
        "a restart policy that workers cannot have": {
            "template": {"spec": {"containers": [container(WAIT)], "restartPolicy": "Never"}}
        },
        "no container to start ranks in": {
            "template": {"spec": {"containers": [{**container(WAIT), "name": "other"}]}}
        },
        "no template": {"template": None},
    }
    for name, change in changes.items():
        spec = {"workerSets": {"ws": {**workers, **change}}}
        wrong = {**document, "spec": {**document["spec"], **spec}}
        await stage.refused(name, wrong)
    await stage.refused("no master", {**document, "spec": {"workerSets": {"ws": workers}}})
    long = {**document, "metadata": {"name": "x" * 60}}
    await stage.refused("a name that is too long", long)
    await stage.refused(
        "a policy nobody knows", job("refused", runPolicy={"cleanPodPolicy": "Some"})
    )


@scenario()
async def invalid(stage: Stage) -> None:
    """What only the operator can see ends the job, with field and fix."""
    await stage.create(job("invalid", workers=1, backend="gloo"))
    await stage.phase("invalid", "Failed", reason="FailedValidation", message="spec.backend")
    await stage.at_rest()


@scenario()
async def refused_pod(stage: Stage) -> None:
    """A pod template that the API server does not take is found when the children are made."""
    document = job("template", workers=1)
    document["spec"]["master"]["template"]["spec"]["nodeSelector"] = {"not a label": "x"}
    document["spec"]["workerSets"]["ws"]["template"]["spec"]["nodeSelector"] = {"not a label": "x"}
    await stage.create(document)
    await stage.phase("template", "Failed", reason="FailedSynced")
    await stage.at_rest()


@scenario()
async def foreign_object(stage: Stage) -> None:
    """An object of somebody else that has a child's name is left alone, until it is gone."""
    foreign = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "blocked-assets"},
        "data": {"mine": "yes"},
    }
    await stage.client.create(CONFIG_MAPS, foreign, stage.namespace)
    await stage.create(job("blocked", workers=1))
    await stage.phase("blocked", "Created", reason="ErrResourceExists")
    await stage.at_rest()
    found = stage.recording.find("ConfigMap", "blocked-assets")
    assert found is not None
    assert found["data"] == {"mine": "yes"}
    await stage.client.delete(CONFIG_MAPS, "blocked-assets", stage.namespace)
    master = await stage.master()
    await stage.phase("blocked", "Running")
    await stage.end(master, 0)
    await stage.phase("blocked", "Succeeded")
    await stage.at_rest()


@scenario()
async def unschedulable(stage: Stage) -> None:
    """A worker that fits on no node is waited for as long as is allowed."""
    policy = {"schedulingPolicy": {"scheduleTimeoutSeconds": 20}}
    document = job("big", workers=1, runPolicy=policy)
    worker = document["spec"]["workerSets"]["ws"]["template"]["spec"]["containers"][0]
    worker["resources"] = {"requests": {"cpu": "1000"}}
    await stage.create(document)
    await stage.phase("big", "Created", reason="WaitingForWorkers", message="Insufficient cpu")
    await stage.phase("big", "Failed", reason="WorkersNotReady", message="Insufficient cpu")
    await stage.at_rest()


@scenario()
async def image_not_found(stage: Stage) -> None:
    """An image that cannot be pulled is named in the status; correcting it lets the job go on."""
    document = job("typo", workers=1)
    worker = document["spec"]["workerSets"]["ws"]
    worker["template"]["spec"]["containers"][0]["image"] = MISSING_IMAGE
    await stage.create(document)
    await stage.phase("typo", "Created", reason="WaitingForWorkers", message="ErrImagePull")
    await stage.event("Failed", "Error: ImagePullBackOff")
    await stage.phase("typo", "Created", reason="WaitingForWorkers", message="ImagePullBackOff")
    worker["template"]["spec"]["containers"][0]["image"] = IMAGE
    await stage.edit("typo", {"workerSets": {"ws": worker}})
    master = await stage.master()
    await stage.phase("typo", "Running", workersReady="1/1")
    await stage.end(master, 0)
    await stage.phase("typo", "Succeeded")
    await stage.at_rest()


@scenario()
async def program_not_found(stage: Stage) -> None:
    """A command that the image does not have is the master's failure."""
    document = job("absent", GATE)
    main = document["spec"]["master"]["template"]["spec"]["containers"][0]
    main["command"] = ["/no/such/program"]
    await stage.create(document)
    await stage.phase("absent", "Failed", reason="BackoffLimitExceeded")
    await stage.at_rest()
