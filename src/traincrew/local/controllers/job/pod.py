"""The pods of a Job. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.engine.resources import JOBS
from traincrew.local.controllers import pods as podutil
from traincrew.local.controllers.common import owner_reference
from traincrew.local.controllers.job.indexes import INDEX
from traincrew.local.controllers.job.model import TRACKING

if TYPE_CHECKING:
    from traincrew.engine.objects import AnyObject


def pod_of(
    job: AnyObject, index: int | None = None, annotations: dict[str, str] | None = None
) -> dict[str, Any]:
    """Return a pod of the Job; for an Indexed Job the one with this `index`."""
    template = job.spec.get("template") or {}
    name, uid = job.metadata.name, job.metadata.uid
    labels = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    spec: dict[str, Any] = {}
    base = podutil.generated_base(name)
    if index is not None:
        labels[INDEX] = str(index)
        annotations = {INDEX: str(index)} | (annotations or {})
        spec["hostname"] = f"{name}-{index}"
        base = podutil.generated_base(name, f"-{index}-")
        variable = {
            "name": "JOB_COMPLETION_INDEX",
            "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}},
        }
        for key in ("containers", "initContainers"):
            if containers := (template.get("spec") or {}).get(key):
                spec[key] = podutil.with_environment(containers, variable)
    return podutil.from_template(
        template,
        namespace=job.metadata.namespace,
        owner=owner_reference(job, JOBS),
        generate_name=base,
        labels=labels,
        annotations=annotations,
        finalizers=(TRACKING,),
        spec=spec,
    )
