"""Warning events for what in a ChainerJob is not honored as written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.api.kinds.chainerjob.types import MASTER
from traincrew.plan.chainerjob.children import PATHS, Names, master_fingerprint
from traincrew.plan.shared.model import FINGERPRINT, Event
from traincrew.plan.shared.templates import openmpi

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from traincrew.api.kinds.chainerjob.types import ChainerJobSpec
    from traincrew.api.meta import Owner
    from traincrew.plan.shared.lifecycle import Status
    from traincrew.plan.shared.views import BatchJobView


def warnings(owner: Owner, spec: ChainerJobSpec, job: BatchJobView | None) -> list[Event]:
    """Return warnings about a spec that has just taken effect."""
    return list(_warnings(owner, spec, job))


def lost_workers(status: Status) -> list[Event]:
    """Warn about a doubtful success: Open MPI 5 exits with 0 although a worker was lost."""
    restarts = {
        name: replica.restarts
        for name, replica in sorted(status.replica_statuses.items())
        if name != MASTER and replica.restarts
    }
    if not restarts:
        return []
    sets = ", ".join(f"{name}: {count}" for name, count in restarts.items())
    text = (
        f"the master succeeded, but workers were restarted ({sets}); check its output, because"
        " mpiexec of Open MPI 5 exits with 0 when it loses a worker"
    )
    return [Event("Warning", "WorkersRestarted", text)]


def _warnings(owner: Owner, spec: ChainerJobSpec, job: BatchJobView | None) -> Iterator[Event]:
    templates = {"spec.master.template": spec.master.template}
    for name, workers in sorted(spec.worker_sets.items()):
        templates[f"spec.workerSets.{name}.template"] = workers.template
    for path, template in templates.items():
        pod = template.get("spec", {})
        account = Names(owner.name).service_account
        given = pod.get("serviceAccountName") or pod.get("serviceAccount")
        if given and given != account:
            text = f"{path}.spec.serviceAccountName: {given} is not used, pods run as {account}"
            yield Event("Warning", "ServiceAccountReplaced", text)
        if spec.distributed:
            yield from _kept_variables(path, pod)
    if job is not None:
        written = job.metadata.annotations.get(FINGERPRINT)
        if written not in (None, master_fingerprint(spec)) and not job.spec.suspend:
            text = (
                "spec.master.template: changes have no effect on a master that runs; suspend and"
                f" resume the {owner.kind}, or delete it and create it again"
            )
            yield Event("Warning", "MasterUnchanged", text)


def _kept_variables(path: str, pod: dict[str, Any]) -> Iterator[Event]:
    ours = openmpi.environment(PATHS)
    for container in pod.get("containers", []):
        for entry in container.get("env") or []:
            name = entry.get("name")
            if name in ours:
                text = (
                    f"{path}.spec.containers[{container.get('name')}].env: {name} is kept as"
                    f' written; it would be "{ours[name]}"'
                )
                yield Event("Warning", "EnvironmentKept", text)
