"""The writes of an MPIJob's children: only what is missing or differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.plan.mpijob import children
from traincrew.plan.shared.model import FINGERPRINT, ChildKey, Write
from traincrew.plan.shared.templates import podtemplate
from traincrew.plan.shared.views import ConfigMapView
from traincrew.plan.shared.writes import patch, stages, with_field, with_spec

if TYPE_CHECKING:
    from traincrew.api.kinds.mpijob.types import MPIJobSpec
    from traincrew.api.meta import Owner
    from traincrew.plan.mpijob.observed import ObservedJob
    from traincrew.plan.shared.kind import Options
    from traincrew.plan.shared.model import Plan
    from traincrew.plan.shared.writes import Stages, Values

_SUSPEND = ("spec", "suspend")


class Writes:
    """Compares documents with the existing children.

    Args:
        current: The children.
        owner: The job.
        options: Where programs report their progress.
    """

    def __init__(self, current: ObservedJob, owner: Owner, options: Options) -> None:
        self._current = current
        self._observed = current.observed
        self._owner = owner
        self._endpoint = options.endpoint
        self._key = ChildKey("Job", current.names.launcher)

    def run(self, plan: Plan, spec: MPIJobSpec, *, start: bool) -> None:
        """Add everything a job needs to run: what pods refer to, workers, the launcher.

        The Secret is not watched. It is created when the first pods are that need it, and left
        alone if it exists, as it does if workers run: they mount it. It is looked for if a pod
        waits too long for its volumes: somebody may have deleted it.

        Only the launcher reads the ConfigMap. Until there is one, the names of workers can wait.

        Args:
            plan: Added to.
            spec: The desired state.
            start: Whether the launcher is created if it is missing, or resumed.
        """
        missing = self._current.missing(spec)
        begins = self._current.job is None and start
        expected = self._current.has_late_pods and not missing
        secret = None
        if missing or expected or (begins and not self._current.running_workers):
            key = children.secret(self._owner)
            secret = Write(create=key, key_pair=True, expected=expected)
        workers = [
            Write(create=children.worker(self._owner, spec, index, self._endpoint))
            for index in missing
        ]
        service = with_spec(self._observed, children.service(self._owner, spec))
        config = self._config(spec)
        if config is not None and config.patch and self._current.job is None and not begins:
            plan.later, config = [config], None
        launcher = self._launcher(spec, start=start)
        plan.stages = stages([service, config, secret], workers, [launcher])

    def coming(self, spec: MPIJobSpec) -> dict[ChildKey, list[dict[str, Any]]]:
        """Return the launcher's Job and its pod, if it is still to be created."""
        if self._current.job is not None:
            return {}
        return {self._key: [self._document(spec), self.launcher_pod(spec)]}

    def launcher_pod(self, spec: MPIJobSpec) -> dict[str, Any]:
        """Return the launcher's pod as the Job creates it, as far as admission is concerned."""
        return podtemplate.pod(self._document(spec), self._key.name)

    def stop_launcher(self) -> Stages:
        """Return the write that ends a launcher which still runs."""
        job = self._current.job
        if job is None or job.finished or job.spec.suspend:
            return []
        return stages([patch(self._key, job, {_SUSPEND: True})])

    def outdated_launcher(self, spec: MPIJobSpec) -> dict[ChildKey, str]:
        """Return the suspended Job of the launcher if it has to be replaced by one as in the spec.

        The API lets nobody change the template of a Job that has run. It is not deleted before its
        pod is gone: two launchers would write the same files.
        """
        job = self._current.job
        if job is None or not self._is_outdated(spec):
            return {}
        runs = job.status.get("active") or job.status.get("terminating")
        if runs or any(pod.active for pod in self._current.master_pods):
            return {}
        return {self._key: job.metadata.uid} if job.metadata.deletion_timestamp is None else {}

    def _is_outdated(self, spec: MPIJobSpec) -> bool:
        job = self._current.job
        if job is None or not job.spec.suspend or job.finished:
            return False
        written = job.metadata.annotations.get(FINGERPRINT)
        return written != children.launcher_fingerprint(spec)

    # -- single children ----------------------------------------------------------------------

    def _config(self, spec: MPIJobSpec) -> Write | None:
        document = children.config(self._owner, spec, self._current.running_workers)
        return with_field(self._observed, document, ConfigMapView, "data")

    def _launcher(self, spec: MPIJobSpec, *, start: bool) -> Write | None:
        """Create or update the Job; its template is immutable, its limits are not."""
        job = self._current.job
        if job is None:
            return Write(create=self._document(spec)) if start else None
        if self._is_outdated(spec):
            return None
        values: Values = {_SUSPEND: False} if job.spec.suspend and start else {}
        limit, deadline = spec.run_policy.backoff_limit, spec.run_policy.active_deadline_seconds
        if limit is not None and job.spec.backoff_limit != limit:
            values["spec", "backoffLimit"] = limit
        if job.spec.active_deadline_seconds != deadline:
            values["spec", "activeDeadlineSeconds"] = deadline
        return patch(self._key, job, values)

    def _document(self, spec: MPIJobSpec) -> dict[str, Any]:
        return children.launcher(self._owner, spec, self._endpoint)
