"""What prevents a job from starting, and how it is reported to the user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.engine.resources import CONFIG_MAPS

from .manifests import GATE, IMAGE, WAIT, container, job
from .scenario import scenario

if TYPE_CHECKING:
    from .context import ScenarioContext
    from .recording import Document

MISSING_IMAGE = "127.0.0.1:9/nobody/has-this:1"
"""Nothing listens there, so that pulling fails at once."""


@scenario()
async def refused(context: ScenarioContext) -> None:
    """Errors that the schema and its rules detect are refused by the API, with field and fix."""
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
        await context.refused(name, wrong)
    await context.refused("no master", {**document, "spec": {"workerSets": {"ws": workers}}})
    long = {**document, "metadata": {"name": "x" * 60}}
    await context.refused("a name that is too long", long)
    await context.refused(
        "a policy nobody knows", job("refused", runPolicy={"cleanPodPolicy": "Some"})
    )


@scenario()
async def invalid(context: ScenarioContext) -> None:
    """Errors that only the operator detects fail the job, with field and fix."""
    await context.create(job("invalid", workers=1, backend="gloo"))
    await context.phase("invalid", "Failed", reason="FailedValidation", message="spec.backend")
    await context.at_rest()


@scenario()
async def refused_pod(context: ScenarioContext) -> None:
    """A pod template that the API server refuses is detected when the children are created."""
    document = job("template", workers=1)
    document["spec"]["master"]["template"]["spec"]["nodeSelector"] = {"not a label": "x"}
    document["spec"]["workerSets"]["ws"]["template"]["spec"]["nodeSelector"] = {"not a label": "x"}
    await context.create(document)
    await context.phase("template", "Failed", reason="FailedSynced")
    await context.at_rest()


@scenario()
async def foreign_object(context: ScenarioContext) -> None:
    """An object with a child's name that the job does not control blocks it, and is left alone."""
    foreign = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "blocked-assets"},
        "data": {"mine": "yes"},
    }
    await context.client.create(CONFIG_MAPS, foreign, context.namespace)
    await context.create(job("blocked", workers=1))
    await context.phase("blocked", "Created", reason="ErrResourceExists")
    await context.at_rest()
    found = context.recording.find("ConfigMap", "blocked-assets")
    assert found is not None
    assert found["data"] == {"mine": "yes"}
    await context.client.delete(CONFIG_MAPS, "blocked-assets", context.namespace)
    master = await context.master()
    await context.phase("blocked", "Running")
    await context.end(master, 0)
    await context.phase("blocked", "Succeeded")
    await context.at_rest()


@scenario()
async def unschedulable(context: ScenarioContext) -> None:
    """The job waits for an unschedulable worker as long as permitted."""
    policy = {"schedulingPolicy": {"scheduleTimeoutSeconds": 20}}
    document = job("big", workers=1, runPolicy=policy)
    worker = document["spec"]["workerSets"]["ws"]["template"]["spec"]["containers"][0]
    worker["resources"] = {"requests": {"cpu": "1000"}}
    await context.create(document)
    await context.phase("big", "Created", reason="WaitingForWorkers", message="Insufficient cpu")
    await context.phase("big", "Failed", reason="WorkersNotReady", message="Insufficient cpu")
    await context.at_rest()


@scenario()
async def image_not_found(context: ScenarioContext) -> None:
    """An image that cannot be pulled is named in the status; the job continues once corrected."""
    document = job("typo", workers=1)
    worker = document["spec"]["workerSets"]["ws"]
    worker["template"]["spec"]["containers"][0]["image"] = MISSING_IMAGE
    await context.create(document)
    await context.phase("typo", "Created", reason="WaitingForWorkers", message="ErrImagePull")
    await context.event("Failed", "Error: ImagePullBackOff")
    await context.phase("typo", "Created", reason="WaitingForWorkers", message="ImagePullBackOff")
    worker["template"]["spec"]["containers"][0]["image"] = IMAGE
    await context.edit("typo", {"workerSets": {"ws": worker}})
    master = await context.master()
    await context.phase("typo", "Running", workersReady="1/1")
    await context.end(master, 0)
    await context.phase("typo", "Succeeded")
    await context.at_rest()


@scenario()
async def program_not_found(context: ScenarioContext) -> None:
    """A command that does not exist in the image is a failure of the master."""
    document = job("absent", GATE)
    main = document["spec"]["master"]["template"]["spec"]["containers"][0]
    main["command"] = ["/no/such/program"]
    await context.create(document)
    await context.phase("absent", "Failed", reason="BackoffLimitExceeded")
    await context.at_rest()
