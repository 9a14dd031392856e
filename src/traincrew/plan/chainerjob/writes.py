"""The writes of a ChainerJob's children: only what is missing or differs.

A missing child is created; the API refuses that if an object of this name already exists. In a
child that exists, only the fields that differ are replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.plan.chainerjob import children
from traincrew.plan.shared.grants import OwnedPods
from traincrew.plan.shared.model import FINGERPRINT, ChildKey, Observed, Write
from traincrew.plan.shared.templates import openmpi, podtemplate
from traincrew.plan.shared.views import (
    BatchJobView,
    ConfigMapView,
    RoleBindingView,
    RoleView,
    StatefulSetView,
)
from traincrew.plan.shared.writes import annotate, digest, fingerprint, patch, stages, with_field

if TYPE_CHECKING:
    from collections.abc import Collection

    from traincrew.api.kinds.chainerjob.types import ChainerJobSpec
    from traincrew.api.meta import Owner
    from traincrew.api.runpolicy import CommonPolicy
    from traincrew.plan.chainerjob.edits import Edits
    from traincrew.plan.chainerjob.grants import Grant
    from traincrew.plan.shared.kind import Options
    from traincrew.plan.shared.writes import Stages, Values

_REPLICAS = ("spec", "replicas")
_SUSPEND = ("spec", "suspend")


class Writes:
    """Compares documents with the existing children.

    Args:
        observed: The children.
        owner: The job.
        options: The image of the init containers, and where programs report their progress.
    """

    def __init__(self, observed: Observed, owner: Owner, options: Options) -> None:
        self._observed = observed
        self._owner = owner
        self._options = options
        self._names = children.Names(owner.name)

    # -- all children -------------------------------------------------------------------------

    def run(
        self, spec: ChainerJobSpec, edits: Edits, grant: Grant, *, start_master: bool
    ) -> Stages:
        """Return everything a job needs to run, except changes that `edits` holds back.

        What pods refer to comes before the pods, and the master's pod comes last. The RoleBinding
        comes after its Role: the API server reads the Role to decide whether we may grant it.
        The Role comes before changes of the StatefulSets: a set that gets more pods may not be read
        before the Role names them.
        """
        first = [
            self._service_account(),
            self._role(grant),
            self._assets(spec) if spec.distributed else None,
        ]
        workers = [self._workers(spec, name, edits) for name in sorted(spec.worker_sets)]
        master = [self._master(spec, start=start_master)]
        return stages(first, [self._role_binding()], workers, master)

    def worker_pod(self, spec: ChainerJobSpec, set_name: str, name: str) -> dict[str, Any]:
        """Return a worker's pod as the StatefulSet creates it, as far as admission is concerned."""
        document = self._workers_document(spec, set_name)
        return podtemplate.pod(document, name)

    def master_pod(self, spec: ChainerJobSpec) -> dict[str, Any]:
        """Return the master's pod as the Job creates it, as far as admission is concerned."""
        return podtemplate.pod(self._master_document(spec), self._names.master)

    def coming(self, spec: ChainerJobSpec) -> dict[ChildKey, list[dict[str, Any]]]:
        """Return the master's Job and its pod, if it is still to be created."""
        if self._job() is not None:
            return {}
        return {self._job_key: [self._master_document(spec), self.master_pod(spec)]}

    def suspend(self, edits: Edits) -> Stages:
        """Scale the workers to zero and suspend the master's Job. Nothing new is created.

        What `edits` holds back is left unchanged.
        """
        job = self._job()
        stopped = None
        if job is not None and not job.spec.suspend and not edits.holds_master:
            stopped = patch(self._job_key, job, {_SUSPEND: True})
        revoked = None if edits.holds_master else self._role_with([])
        return stages([*self._scaled_to_zero(edits.held_sets), stopped], [revoked])

    def clean_up(self, policy: CommonPolicy, *, at_rest: bool) -> Stages:
        """Delete the workers of a job that has ended, unless its policy keeps them.

        A master that still runs, because something else has ended the job, is always stopped.

        Args:
            policy: What stays.
            at_rest: Whether the job had been cleaned up before: its Role is left alone.
        """
        job = self._job()
        running = None
        if job is not None and not job.finished and not job.spec.suspend:
            running = patch(self._job_key, job, {_SUSPEND: True})
        revoked = None if at_rest else self._role_with([])
        if policy.clean_pod_policy == "None":
            return stages([running, revoked])
        return stages([*self._scaled_to_zero(), running, revoked])

    def narrow(self) -> Stages:
        """Return the write that removes from the Role what the job does not have any more."""
        found = self._observed.child(ChildKey("Role", self._names.role), RoleView)
        if found is None:
            return []
        rules = OwnedPods(self._observed).narrowed(found.rules)
        return stages([self._role_with(rules)])

    def removed_sets(self, spec: ChainerJobSpec, edits: Edits) -> dict[ChildKey, str]:
        """Return the StatefulSets of worker sets that are no longer in the spec."""
        wanted = {self._names.workers(name) for name in {*spec.worker_sets, *edits.held_sets}}
        return {
            key: view.metadata.uid
            for key, view in self._observed.children.items()
            if isinstance(view, StatefulSetView)
            and key.name not in wanted
            and view.metadata.deletion_timestamp is None
        }

    def outdated_master(self, spec: ChainerJobSpec) -> dict[ChildKey, str]:
        """Return the suspended Job of the master if it has to be replaced by one as in the spec.

        The API lets nobody change the template of a Job that has run. It is not deleted before its
        pod is gone: two masters would write the same snapshots.
        """
        found = self._job()
        if found is None or not self._is_outdated(spec, found):
            return {}
        status, uid = found.status, found.metadata.uid
        runs = status.get("active") or status.get("terminating")
        for pod in self._observed.pods:
            owner = pod.metadata.controller
            runs = runs or (pod.active and owner is not None and owner.uid == uid)
        if runs or found.metadata.deletion_timestamp is not None:
            return {}
        return {self._job_key: uid}

    @staticmethod
    def _is_outdated(spec: ChainerJobSpec, found: BatchJobView) -> bool:
        written = found.metadata.annotations.get(FINGERPRINT)
        return (
            found.spec.suspend
            and not found.finished
            and written != children.master_fingerprint(spec)
        )

    def _scaled_to_zero(self, held: Collection[str] = ()) -> list[Write | None]:
        kept = {self._names.workers(name) for name in held}
        return [
            patch(key, view, {_REPLICAS: 0})
            for key, view in sorted(self._observed.children.items(), key=lambda item: item[0])
            if isinstance(view, StatefulSetView)
            and view.spec.replicas != 0
            and key.name not in kept
        ]

    # -- single children ----------------------------------------------------------------------

    def _service_account(self) -> Write | None:
        document = children.service_account(self._owner)
        return self._create(document)

    def _role(self, grant: Grant) -> Write | None:
        document = children.role(self._owner, grant.sets, grant.pods)
        return with_field(self._observed, document, RoleView, "rules")

    def _role_with(self, rules: list[dict[str, Any]]) -> Write | None:
        """Replace the rules of a Role that exists."""
        key = ChildKey("Role", self._names.role)
        found = self._observed.child(key, RoleView)
        if found is None or found.rules == rules:
            return None
        return patch(key, found, {("rules",): rules})

    def _role_binding(self) -> Write | None:
        document = children.role_binding(self._owner)
        return with_field(self._observed, document, RoleBindingView, "subjects")

    def _assets(self, spec: ChainerJobSpec) -> Write | None:
        """Create or replace the scripts; running pods keep those of the version that created them.

        So they are replaced only if somebody else changed them, or the worker sets have changed.
        """
        document = children.assets(self._owner, spec)
        found = self._observed.child(ChildKey.of(document), ConfigMapView)
        if found is None:
            return self._create(document)
        untouched = digest(found.data) == found.metadata.annotations.get(FINGERPRINT)
        sets = document["data"][openmpi.SETS_AND_SLOTS]
        if untouched and found.data.get(openmpi.SETS_AND_SLOTS) == sets:
            return None
        values = {
            ("data",): document["data"],
            **annotate(found, {FINGERPRINT: fingerprint(document)}),
        }
        return patch(ChildKey.of(document), found, values)

    def _workers(self, spec: ChainerJobSpec, name: str, edits: Edits) -> Write | None:
        document = self._workers_document(spec, name)
        key = ChildKey.of(document)
        found = self._observed.child(key, StatefulSetView)
        if found is None:
            return self._create(document)
        if name in edits.held_sets:
            return None
        values: Values = {}
        replicas = document["spec"]["replicas"]
        if found.spec.replicas != replicas:
            values[_REPLICAS] = replicas
        if edits.replaces_template(name, found):
            values["spec", "template"] = document["spec"]["template"]
            values.update(annotate(found, {FINGERPRINT: fingerprint(document)}))
        return patch(key, found, values)

    def _master(self, spec: ChainerJobSpec, *, start: bool) -> Write | None:
        """Create or update the Job; its template is immutable, its limits are not."""
        document = self._master_document(spec)
        found = self._job()
        if found is None:
            return self._create(document) if start else None
        if self._is_outdated(spec, found):
            return None
        values: Values = {}
        if found.spec.suspend and start:
            values[_SUSPEND] = False
        wanted = document["spec"]
        limit = wanted.get("backoffLimit")
        if limit is not None and found.spec.backoff_limit != limit:
            values["spec", "backoffLimit"] = limit
        deadline = wanted.get("activeDeadlineSeconds")
        if found.spec.active_deadline_seconds != deadline:
            values["spec", "activeDeadlineSeconds"] = deadline
        return patch(self._job_key, found, values)

    def _master_document(self, spec: ChainerJobSpec) -> dict[str, Any]:
        return children.master(
            self._owner, spec, self._options.helper_image, self._options.endpoint
        )

    def _workers_document(self, spec: ChainerJobSpec, set_name: str) -> dict[str, Any]:
        options = self._options
        return children.workers(self._owner, spec, set_name, options.helper_image, options.endpoint)

    @property
    def _job_key(self) -> ChildKey:
        return ChildKey("Job", self._names.master)

    def _job(self) -> BatchJobView | None:
        return self._observed.child(self._job_key, BatchJobView)

    def _create(self, document: dict[str, Any]) -> Write | None:
        if ChildKey.of(document) in self._observed.children:
            return None
        return Write(create=document)
