"""The writes of an MPICluster's children: only what is missing or differs.

A missing child is created; the API refuses that if an object of this name already exists. In a
child that exists, only the fields that differ are replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.api.kinds.mpicluster.transport import EXEC
from traincrew.api.kinds.mpicluster.types import ONE_SHOT
from traincrew.plan.mpicluster import agent, children
from traincrew.plan.mpicluster.children import (
    ANNOTATION_HOSTFILE,
    ANNOTATION_REPLICAS,
    HOSTFILE,
    LABEL_EXTERNAL,
)
from traincrew.plan.shared import pods
from traincrew.plan.shared.grants import OwnedPods, granted
from traincrew.plan.shared.grants import names as names_to_grant
from traincrew.plan.shared.model import FINGERPRINT, ChildKey, Write
from traincrew.plan.shared.templates import podtemplate
from traincrew.plan.shared.views import ChildView, ConfigMapView, RoleBindingView, RoleView
from traincrew.plan.shared.writes import (
    annotate,
    digest,
    fingerprint,
    patch,
    stages,
    with_field,
    with_spec,
)

if TYPE_CHECKING:
    from traincrew.api.kinds.mpicluster.types import MPIClusterSpec
    from traincrew.api.meta import Owner
    from traincrew.plan.mpicluster.keys import Keys
    from traincrew.plan.mpicluster.observed import ObservedCluster
    from traincrew.plan.shared.kind import Options
    from traincrew.plan.shared.writes import Stages, Values

_REPLICAS = ("spec", "replicas")
_DEADLINE = ("spec", "activeDeadlineSeconds")
_SUSPENDED = "suspended"
"""Value of the annotation of the StatefulSet that is different from any number."""
_NOW = 1
"""Seconds since its start after which a pod is ended that has run for longer: at once."""


class Writes:
    """Compares documents with the existing children.

    Args:
        current: The children.
        owner: The cluster.
        options: The images of init containers.
    """

    def __init__(self, current: ObservedCluster, owner: Owner, options: Options) -> None:
        self._current = current
        self._observed = current.observed
        self._owner = owner
        self._options = options

    # -- all children -------------------------------------------------------------------------

    def run(self, spec: MPIClusterSpec, keys: Keys, *, held: bool, start: bool) -> Stages:
        """Return everything a cluster needs to run.

        What pods refer to comes before the pods, and the master comes last. The master's annotation
        comes after the hostfile, because it makes the kubelet read that. Nothing waits for a
        rotation of the keys. The Role comes before the hostfile, because it has to name every host
        of that; as long as there is none it comes after the StatefulSet, which may turn out to be
        somebody else's. The RoleBinding comes after the Role, which the API server reads to decide
        whether we may grant it.

        Args:
            spec: The desired state.
            keys: The Secret with the ssh keys, and what happens to it.
            held: Whether a new template of the workers is not written yet.
            start: Whether the master is created if it is missing.
        """
        hostfile = self._hostfile(spec, start=start)
        first = [
            keys.create,
            self._assets(spec, hostfile),
            *(with_spec(self._observed, document) for document in self._others(spec)),
        ]
        workers = self._workers(spec, keys.secret, held=held)
        role, binding = None, None
        named: list[str] = []
        if spec.transport == EXEC:
            first.append(self._service_account(spec))
            named = self._granted()
            role, binding = self._role(spec, named), self._role_binding(spec)
        early, late = (role, None) if named or self._found_role is not None else (None, role)
        master = self._master(spec, keys.secret, hostfile, start=start)
        return stages([early], first, [workers], [late], [binding], [master], [keys.change])

    def coming(self, spec: MPIClusterSpec, key_secret: str) -> dict[ChildKey, list[dict[str, Any]]]:
        """Return the master, if it is still to be created.

        Without hosts in its annotation, so that it does not change with every worker.
        """
        if self._current.master is not None:
            return {}
        document = children.master(
            self._owner, spec, self._options, key_secret=key_secret, hostfile=""
        )
        return {ChildKey.of(document): [document]}

    def unwanted(self, spec: MPIClusterSpec) -> dict[ChildKey, str]:
        """Return the optional children that the spec does not ask for any more."""
        names = self._current.names
        optional = {
            ChildKey("Service", names.gateway),
            ChildKey("PodDisruptionBudget", names.budget),
            ChildKey("NetworkPolicy", names.allow_internal),
            ChildKey("NetworkPolicy", names.allow_external),
        }
        wanted = {ChildKey.of(document) for document in self._others(spec)}
        return {
            key: self._observed.children[key].metadata.uid
            for key in sorted(optional - wanted)
            if key in self._observed.children
            and self._observed.children[key].metadata.deletion_timestamp is None
        }

    def scale_to_zero(self) -> Stages:
        """Return the write that ends all workers."""
        found = self._current.set
        if found is None or found.spec.replicas == 0:
            return []
        # With another annotation, the number of the spec is applied again afterwards.
        values = {_REPLICAS: 0, **annotate(found, {ANNOTATION_REPLICAS: _SUSPENDED})}
        return stages([patch(_key("StatefulSet", found), found, values)])

    def revoke(self) -> Stages:
        """Return the write after which nobody may start processes in the workers."""
        return self._with_rules([])

    def narrow(self) -> Stages:
        """Return the write that removes from the Role the pods that are gone."""
        found = self._found_role
        rules = OwnedPods(self._observed).narrowed(found.rules) if found is not None else []
        return self._with_rules(rules)

    def _with_rules(self, rules: list[dict[str, Any]]) -> Stages:
        found = self._found_role
        if found is None or found.rules == rules:
            return []
        return stages([patch(_key("Role", found), found, {("rules",): rules})])

    def stop_master(self) -> Stages:
        """Return the write that ends a master which still runs, and keeps its pod for its log."""
        pod = self._current.master
        if pod is None or pods.has_ended(pod) or pod.spec.active_deadline_seconds == _NOW:
            return []
        return stages([patch(_key("Pod", pod), pod, {_DEADLINE: _NOW})])

    def worker_pod(self, spec: MPIClusterSpec, key_secret: str, name: str) -> dict[str, Any]:
        """Return a worker's pod as the StatefulSet creates it, as far as admission is concerned."""
        document = self._worker_document(spec, key_secret)
        return podtemplate.pod(document, name)

    # -- single children ----------------------------------------------------------------------

    def _others(self, spec: MPIClusterSpec) -> list[dict[str, Any]]:
        """Return the desired children that have nothing but a ``spec``."""
        owner, found = self._owner, [children.service(self._owner, spec)]
        if spec.ssh.gateway.enabled:
            found.append(children.gateway(owner, spec))
        if spec.workers.pod_disruption_budget.enabled:
            found.append(children.budget(owner, spec, self._current.replicas))
        if spec.network_policy.enabled:
            found += children.network_policies(owner, spec)
        return found

    def _hostfile(self, spec: MPIClusterSpec, *, start: bool) -> str:
        """Return the desired hostfile; without autoUpdate that of a running master stays."""
        key = ChildKey("ConfigMap", self._current.names.assets)
        found = self._observed.child(key, ConfigMapView)
        existing = found.data.get(HOSTFILE) if found is not None else None
        running = self._current.master is not None
        if existing is not None and not (start if not running else spec.hostfile.auto_update):
            return existing
        return self._current.hostfile

    def _assets(self, spec: MPIClusterSpec, hostfile: str) -> Write | None:
        document = children.assets(self._owner, spec, hostfile)
        return with_field(self._observed, document, ConfigMapView, "data")

    def _service_account(self, spec: MPIClusterSpec) -> Write | None:
        document = children.service_account(self._owner, spec)
        own = self._current.names.master
        given = agent.account_of(spec.master.template, own) != own
        if given or ChildKey.of(document) in self._observed.children:
            return None
        return Write(create=document)

    @property
    def _found_role(self) -> RoleView | None:
        return self._observed.child(ChildKey("Role", self._current.names.master), RoleView)

    def _granted(self) -> list[str]:
        """Return the pods that the Role is to name: at least those that the hostfile may have."""
        names = self._current.names
        members = OwnedPods(self._observed).of(names.workers, self._current.replicas)
        ready = [names.worker(index) for index in self._current.ready]
        found = self._found_role
        before = granted(found.rules) if found is not None else frozenset()
        return names_to_grant(before, members.pods, members.pods if members.complete else ready)

    def _role(self, spec: MPIClusterSpec, pods: list[str]) -> Write | None:
        document = children.role(self._owner, spec, pods)
        return with_field(self._observed, document, RoleView, "rules")

    def _role_binding(self, spec: MPIClusterSpec) -> Write | None:
        """Create or repair the RoleBinding; an existing master keeps its account."""
        document = children.role_binding(self._owner, spec)
        exists = ChildKey.of(document) in self._observed.children
        if exists and self._current.has_another_template:
            return None
        return with_field(self._observed, document, RoleBindingView, "subjects")

    def _workers(self, spec: MPIClusterSpec, key_secret: str, *, held: bool) -> Write | None:
        document = self._worker_document(spec, key_secret)
        found = self._current.set
        if found is None:
            return Write(create=document)
        values: Values = {}
        texts = {}
        if self._current.applies_replicas:
            values[_REPLICAS] = spec.workers.replicas
            texts[ANNOTATION_REPLICAS] = str(spec.workers.replicas)
        if self._current.replaces_template(key_secret) and not held:
            values["spec", "template"] = document["spec"]["template"]
            texts[FINGERPRINT] = fingerprint(document)
        return patch(ChildKey.of(document), found, values | annotate(found, texts))

    def _worker_document(self, spec: MPIClusterSpec, key_secret: str) -> dict[str, Any]:
        return children.workers(
            self._owner,
            spec,
            self._options.git_image,
            key_secret=key_secret,
            replicas=spec.workers.replicas,
        )

    def _master(
        self, spec: MPIClusterSpec, key_secret: str, hostfile: str, *, start: bool
    ) -> Write | None:
        found = self._current.master
        if found is None:
            if not start:
                return None
            document = children.master(
                self._owner, spec, self._options, key_secret=key_secret, hostfile=hostfile
            )
            return Write(create=document)
        values: Values = {}
        wanted = digest(hostfile)
        if found.metadata.annotations.get(ANNOTATION_HOSTFILE) != wanted:
            values |= annotate(found, {ANNOTATION_HOSTFILE: wanted})
        if spec.network_policy.enabled and LABEL_EXTERNAL not in found.metadata.labels:
            values["metadata", "labels", LABEL_EXTERNAL] = "true"
        return patch(_key("Pod", found), found, values)


def wants_all_workers(spec: MPIClusterSpec, *, started: bool) -> bool:
    """Return whether the master is not created before all workers are ready.

    A command needs them. An interactive master that is lost is created again at once, because
    somebody may want to find out with it what is wrong.
    """
    return not started or spec.mode == ONE_SHOT


def _key(kind: str, found: ChildView) -> ChildKey:
    return ChildKey(kind, found.metadata.name)


__all__ = ["Writes", "wants_all_workers"]
