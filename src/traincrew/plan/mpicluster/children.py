"""The children of an MPICluster, as documents.

Names, labels, ports and mounts are those of the chart kube-openmpi, which users' scripts rely on.
For a cluster N:

    Secret N-ssh-key                   unless spec.ssh.keySecretName names another one
    ServiceAccount N-master            with spec.transport: exec, instead of the Secret, unless the
                                       master's template names another one
    Role, RoleBinding N-master         with spec.transport: exec
    ConfigMap N-assets                 the hostfile; with spec.transport: exec also scripts
    Service N                          headless: host names of the pods
    Service N-ssh-gateway              with spec.ssh.gateway
    PodDisruptionBudget N-worker-pdb   with spec.workers.podDisruptionBudget
    NetworkPolicy N-allow-internal, N-allow-from-external    with spec.networkPolicy
    StatefulSet N-worker
    Pod N-master
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from traincrew.api.kinds.mpicluster.transport import EXEC
from traincrew.api.kinds.mpicluster.types import MASTER, MASTER_CONTAINER, WORKER, MPIClusterSpec
from traincrew.plan.mpicluster import agent, templates
from traincrew.plan.shared import reporting
from traincrew.plan.shared.kind import RBAC
from traincrew.plan.shared.model import FINGERPRINT, KEY_GENERATION
from traincrew.plan.shared.templates import openmpi, podtemplate
from traincrew.plan.shared.writes import digest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traincrew.api.meta import Owner
    from traincrew.plan.shared.kind import Options

LABEL_NAME = "mpicluster.traincrew.dev/name"
CHART = "kube-openmpi-0.7.0"
HERITAGE = "traincrew"
LABEL_EXTERNAL = "allow_from_external"
"""Label of pods that accept connections from everywhere, with spec.networkPolicy."""
ANNOTATION_REPLICAS = "mpicluster.traincrew.dev/replicas"
"""On the StatefulSet: the number of replicas of the spec that was applied last. As long as it is
the spec's, the number that somebody else has set is kept."""
ANNOTATION_HOSTFILE = "mpicluster.traincrew.dev/hostfile"
"""On the master: a hash of the hostfile. A kubelet refreshes the volumes of a pod that has changed
at once, and those of others about once a minute."""

HOSTFILE = "hostfile"
SERVICE_PORT = 1234
"""A headless Service needs no port; clients of the chart's Service may expect it."""
SSH_PORT = 22
"""Port of the gateway; in the pods sshd listens on `templates.PORT`."""

Document = dict[str, Any]


class Names:
    """Names of a cluster's children."""

    def __init__(self, cluster: str) -> None:
        self.service = cluster
        self.ssh_key = f"{cluster}-ssh-key"
        self.assets = f"{cluster}-assets"
        self.gateway = f"{cluster}-ssh-gateway"
        self.budget = f"{cluster}-worker-pdb"
        self.allow_internal = f"{cluster}-allow-internal"
        self.allow_external = f"{cluster}-allow-from-external"
        self.workers = f"{cluster}-worker"
        self.master = f"{cluster}-master"

    def worker(self, index: int) -> str:
        """Return the name of the pod of a worker."""
        return f"{self.workers}-{index}"

    def host(self, pod: str) -> str:
        """Return the host name by which the others find a pod."""
        return f"{pod}.{self.service}"


def labels(cluster: str, spec: MPIClusterSpec) -> dict[str, str]:
    """Return the labels of every child."""
    return {
        "app": spec.app_name,
        "chart": CHART,
        "release": cluster,
        "heritage": HERITAGE,
        LABEL_NAME: cluster,
    }


def selector(cluster: str, spec: MPIClusterSpec, role: str = "") -> dict[str, str]:
    """Return the labels that select the pods of a cluster, or those of a role."""
    found = {"app": spec.app_name, "release": cluster}
    return {**found, "role": role} if role else found


def _document(
    api_version: str,
    kind: str,
    name: str,
    owner: Owner,
    desired: MPIClusterSpec,
    **content: Any,
) -> Document:
    """Return a child; one with a ``spec`` gets a fingerprint of it."""
    metadata: Document = {
        "name": name,
        "namespace": owner.namespace,
        "labels": labels(owner.name, desired),
        "ownerReferences": [owner.owner_reference()],
    }
    if "spec" in content:
        metadata["annotations"] = {FINGERPRINT: digest(content["spec"])}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


# -- what pods refer to -----------------------------------------------------------------------


def ssh_key(owner: Owner, spec: MPIClusterSpec, generation: int) -> Document:
    """Return the Secret with the ssh keys, but without the keys: see `Write.key_pair`."""
    name = Names(owner.name).ssh_key
    document = _document("v1", "Secret", name, owner, spec, type="Opaque")
    document["metadata"]["annotations"] = {KEY_GENERATION: str(generation)}
    return document


def assets(owner: Owner, spec: MPIClusterSpec, hostfile: str) -> Document:
    """Return the ConfigMap with the hostfile, and the scripts of the master if there is no ssh."""
    names = Names(owner.name)
    data = {HOSTFILE: hostfile}
    if spec.transport == EXEC:
        data |= agent.scripts(names.service)
    return _document("v1", "ConfigMap", names.assets, owner, spec, data=data)


def service_account(owner: Owner, spec: MPIClusterSpec) -> Document:
    """Return the ServiceAccount of the master, with `transport: exec`."""
    return _document("v1", "ServiceAccount", Names(owner.name).master, owner, spec)


def role(owner: Owner, spec: MPIClusterSpec, pods: Sequence[str]) -> Document:
    """Return the Role with which mpiexec in the master starts processes in these pods."""
    rules = openmpi.exec_rules(pods)
    return _document(f"{RBAC}/v1", "Role", Names(owner.name).master, owner, spec, rules=rules)


def role_binding(owner: Owner, spec: MPIClusterSpec) -> Document:
    """Return the RoleBinding that gives the Role to the ServiceAccount of the master."""
    name = Names(owner.name).master
    account = agent.account_of(spec.master.template, name)
    content = openmpi.binding(account, owner.namespace, name)
    return _document(f"{RBAC}/v1", "RoleBinding", name, owner, spec, **content)


def service(owner: Owner, spec: MPIClusterSpec) -> Document:
    """Return the Service that publishes the names of all pods, also before they are ready.

    A program that was started with a list of hosts may look up one that is just being restarted.
    """
    content = {
        "clusterIP": "None",
        "ports": [{"name": "dummy", "port": SERVICE_PORT, "targetPort": SERVICE_PORT}],
        "publishNotReadyAddresses": True,
        "selector": selector(owner.name, spec),
    }
    return _document("v1", "Service", Names(owner.name).service, owner, spec, spec=content)


def gateway(owner: Owner, spec: MPIClusterSpec) -> Document:
    """Return the Service by which the master is reached from outside by ssh."""
    port = {
        "name": "ssh",
        "port": SSH_PORT,
        "targetPort": templates.PORT,
        "nodePort": spec.ssh.gateway.node_port,
    }
    content = {
        "type": "NodePort",
        "ports": [port],
        "selector": selector(owner.name, spec, MASTER),
    }
    return _document("v1", "Service", Names(owner.name).gateway, owner, spec, spec=content)


def budget(owner: Owner, spec: MPIClusterSpec, replicas: int) -> Document:
    """Return the PodDisruptionBudget that lets no worker be evicted."""
    content = {
        "minAvailable": replicas,
        "selector": {"matchLabels": selector(owner.name, spec, WORKER)},
    }
    name = Names(owner.name).budget
    return _document("policy/v1", "PodDisruptionBudget", name, owner, spec, spec=content)


def network_policies(owner: Owner, spec: MPIClusterSpec) -> list[Document]:
    """Return the NetworkPolicies: pods accept each other, the master accepts everyone."""
    names, mine = Names(owner.name), {"matchLabels": selector(owner.name, spec)}
    external = {"matchLabels": {**selector(owner.name, spec), LABEL_EXTERNAL: "true"}}
    rules = {
        names.allow_internal: {
            "podSelector": mine,
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": mine}]}],
        },
        names.allow_external: {
            "podSelector": external,
            "policyTypes": ["Ingress"],
            "ingress": [{}],
        },
    }
    return [
        _document("networking.k8s.io/v1", "NetworkPolicy", name, owner, spec, spec=content)
        for name, content in rules.items()
    ]


# -- pods -------------------------------------------------------------------------------------


def workers(
    owner: Owner, spec: MPIClusterSpec, git_image: str, *, key_secret: str, replicas: int
) -> Document:
    """Return the StatefulSet of the workers.

    Its fingerprint covers what the user has written, not the generated template: a new version of
    the operator must not restart the workers of a running cluster.
    """
    names = Names(owner.name)
    mine = {**labels(owner.name, spec), "role": WORKER}
    template = templates.worker(spec, git_image, mine, key_secret, names.assets)
    document = _document(
        "apps/v1",
        "StatefulSet",
        names.workers,
        owner,
        spec,
        spec={
            "podManagementPolicy": spec.workers.pod_management_policy,
            "replicas": replicas,
            "selector": {"matchLabels": selector(owner.name, spec, WORKER)},
            "serviceName": names.service,
            "template": template,
        },
    )
    document["metadata"]["labels"] = mine
    document["metadata"]["annotations"] = {
        FINGERPRINT: workers_fingerprint(spec, key_secret),
        ANNOTATION_REPLICAS: str(replicas),
    }
    return document


def workers_fingerprint(spec: MPIClusterSpec, key_secret: str) -> str:
    """Return the hash of everything that the pods of the workers depend on."""
    return digest(spec.workers.template, msgspec.to_builtins(spec.code_sync), key_secret)


def master(
    owner: Owner, spec: MPIClusterSpec, options: Options, *, key_secret: str, hostfile: str
) -> Document:
    """Return the pod of the master; its program, with rank 0, reports its progress."""
    names = Names(owner.name)
    mine = {**labels(owner.name, spec), "role": MASTER}
    if spec.network_policy.enabled:
        mine[LABEL_EXTERNAL] = "true"
    account = agent.account_of(spec.master.template, names.master)
    hosts = [names.host(names.master), names.host(names.worker(0))]
    template = templates.master(
        spec, options, mine, key_secret, assets=names.assets, account=account, hosts=hosts
    )
    main = podtemplate.index_of(template, MASTER_CONTAINER)
    template = reporting.with_reporting(template, options.endpoint, owner, main)
    annotations = {
        **(template["metadata"].get("annotations") or {}),
        FINGERPRINT: master_fingerprint(spec),
        ANNOTATION_HOSTFILE: digest(hostfile),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": names.master,
            "namespace": owner.namespace,
            "labels": template["metadata"]["labels"],
            "annotations": annotations,
            "ownerReferences": [owner.owner_reference()],
        },
        "spec": {**template["spec"], "hostname": names.master, "subdomain": names.service},
    }


def master_fingerprint(spec: MPIClusterSpec) -> str:
    """Return the hash of what the user has written about the master."""
    command = spec.one_shot.command if spec.one_shot is not None else None
    return digest(spec.master.template, command, msgspec.to_builtins(spec.code_sync))


__all__ = [
    "ANNOTATION_HOSTFILE",
    "ANNOTATION_REPLICAS",
    "HOSTFILE",
    "LABEL_EXTERNAL",
    "LABEL_NAME",
    "Names",
]
