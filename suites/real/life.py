"""The life of jobs of all kinds: everything that can happen to them, once, for least privilege."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from authorization import RBAC, Permission, implied, of_rules
from plan.shared.test_pods import NO_WORDS
from traincrew.api.kinds.mxjob import types as mxnet
from traincrew.operator.kinds import RESOURCES
from traincrew.plan.chainerjob.children import LABEL_NAME, PATHS
from traincrew.plan.mpicluster.children import LABEL_NAME as MPI_LABEL_NAME
from traincrew.plan.mxjob.children import LABEL_NAME as MX_LABEL_NAME

from .faults.jobs import IMAGE, UNTIL_TOLD, chainer_job, work
from .faults.jobs import template as template_of
from .install_support import NAME, User, elastic_job
from .placing import placed_together
from .queueing import queued

if TYPE_CHECKING:
    from hack.cluster import RealCluster

Document = dict[str, Any]
PLURALS = {kind.kind: kind.plural for kind in RESOURCES}
CHILDREN = "serviceaccounts,roles,rolebindings,configmaps,statefulsets,jobs"
MPI_CHILDREN = "secrets,configmaps,services,poddisruptionbudgets,networkpolicies,statefulsets"
ELASTIC = "group-name=elastic.pytorch.org"


class Life:
    """Runs everything that can happen to jobs once."""

    def __init__(self, cluster: RealCluster, user: User) -> None:
        self.cluster = cluster
        self.user = user
        self.implied: set[Permission] = set()
        self.role: set[Permission] = set()

    def live(self) -> None:
        self.scaled_mended_and_suspended()
        self.another_leads()
        self.ended_and_gone()
        for child, document in FOREIGN.items():
            self.something_in_the_way(child, document)
        self.elastic()
        placed_together(self.cluster, self.user)
        queued(self.cluster, self.user)
        for group in (mxnet.GROUP, mxnet.OLDER_GROUP):
            self.parameter_servers(group)
        self.connected_by_ssh()
        self.log_is_read()
        for document in (
            FOREIGN_SERVICE,
            {"apiVersion": "v1", "kind": "Pod", **pod_template("Never")},
        ):
            self.something_in_the_way_of_a_worker(document)
        for child, document in FOREIGN_TO_MPI.items():
            self.something_in_the_way_of_a_cluster(child, document)

    def scaled_mended_and_suspended(self) -> None:
        user = self.user
        rank = f"set -e; {PATHS.agent} life-workerset-ws0-0 echo over there; {UNTIL_TOLD}"
        manifest = chainer_job("life", rank, workers=2, cleanPodPolicy="All")
        del manifest["spec"]["backend"]  # the defaulted field
        user.create(manifest)
        user.until_phase("life", "Running", workersReady="2/2")
        self.rank_has_run()

        user.edit("life", {"workerSets": {"ws0": {"replicas": 3}}})
        user.until_phase("life", "Running", workersReady="3/3")
        user.until("the event again", self.synced_again)
        self.take_notes()

        nothing = json.dumps({"subjects": []})
        user.kubectl(
            "patch", "rolebinding", "life-launcher-rolebinding", "--type=merge", "-p", nothing
        )
        gone = json.dumps({"data": {"kubexeb.sh": "gone"}})
        user.kubectl("patch", "configmap", "life-assets", "--type=merge", "-p", gone)
        user.until("the children are mended", self.mended)
        self.label_comes_back("serviceaccount", "life-launcher", LABEL_NAME)

        user.edit("life", {"runPolicy": {"suspend": True}})
        user.until_phase("life", "Suspended", reason="ChainerJobSuspended")
        user.edit("life", {"runPolicy": {"suspend": False, "activeDeadlineSeconds": 3600}})
        user.until_phase("life", "Running", workersReady="3/3")
        self.rank_has_run()  # before its worker is deleted: without it, the master fails

        worker_set = manifest["spec"]["workerSets"]["ws0"]
        user.edit("life", {"workerSets": {"ws0": None, "other": {**worker_set, "replicas": 1}}})
        user.until("the set is gone", lambda: not user.get("statefulset", "life-workerset-ws0"))

    def rank_has_run(self) -> None:
        """Wait until the master, which has started, has run its rank on a worker."""
        log = ("logs", "-l", "job-name=life-master", "-c", "chainer")
        self.user.until("a rank on a worker", lambda: "over there" in self.user.kubectl(*log))

    def synced_again(self) -> bool:
        events = self.user.items("events", "--field-selector=reason=Synced")
        return any(event.get("count", 1) > 1 for event in events)

    def mended(self) -> bool:
        binding = self.user.get("rolebinding", "life-launcher-rolebinding")
        assets = self.user.get("configmap", "life-assets")
        return bool(binding.get("subjects")) and assets["data"]["kubexeb.sh"] != "gone"

    def take_notes(self) -> None:
        """Return what admission checked about the objects the operator has created."""
        for child in self.user.items(CHILDREN, "-l", LABEL_NAME):
            self.implied |= implied(child, PLURALS)
            if child["metadata"]["name"] == "life-launcher-role":
                self.role |= of_rules(child["rules"])

    def another_leads(self) -> None:
        """Delete the leader; the standby, which watches the Lease, takes over."""
        user = self.user

        def holder() -> str:
            lease = json.loads(
                self.cluster.kubectl("get", "lease", NAME, f"--namespace={NAME}", "-o", "json")
            )
            name: str = lease["spec"].get("holderIdentity", "")
            return name

        before = holder()
        (leader,) = [
            pod["metadata"]["name"]
            for pod in user.operators()
            if before.startswith(pod["metadata"]["name"])
        ]
        self.cluster.kubectl("delete", "pod", leader, f"--namespace={NAME}", "--wait=false")
        user.until("another leader", lambda: holder() not in {"", before})

    def ended_and_gone(self) -> None:
        user = self.user
        user.edit("life", {"runPolicy": {"ttlSecondsAfterFinished": 5}})
        user.end_master("life")
        user.until(
            "its pods are deleted", lambda: not user.items("pods", "-l", "job-name=life-master")
        )
        user.until("the job is deleted", lambda: not user.get("chainerjob", "life"))

    def elastic(self) -> None:
        """Default the limits, add and remove workers, and finally delete the job."""
        user = self.user
        user.create(elastic_job("grows", UNTIL_TOLD, workers=2))
        user.until(
            "the workers run", lambda: self.elastic_status("grows").get("phase") == "Running"
        )
        for child in user.items("pods,services", "-l", ELASTIC):
            self.implied |= implied(child, PLURALS)
        for kind in ("pod", "service"):
            self.label_comes_back(kind, "grows-worker-0", "job-name")
        self.edit_elastic("grows", {"minReplicas": 1})
        user.kubectl("scale", "elasticjob", "grows", "--replicas=1")
        user.until("one is left", lambda: len(user.items("pods,services", "-l", ELASTIC)) == 2)
        user.until("it runs", lambda: self.elastic_status("grows").get("workersReady") == "1/1")
        self.edit_elastic("grows", {"ttlSecondsAfterFinished": 1})
        user.end("grows-worker-0")
        user.until("the job is deleted", lambda: not user.get("elasticjob", "grows"))

    def parameter_servers(self, group: str) -> None:
        """Restart all replicas after one was killed, and finally delete the job."""
        user, kind, name = self.user, f"{mxnet.PLURAL}.{group}", f"servers-{group.count('.')}"
        killed = {"name": "mxnet", "image": IMAGE, "command": ["sh", "-c", "sleep 3; exit 137"]}
        template = {"spec": {"containers": [killed]}}
        types = (mxnet.SCHEDULER, mxnet.SERVER, mxnet.WORKER)
        user.create(
            {
                "apiVersion": f"{group}/{mxnet.VERSION}",
                "kind": mxnet.KIND,
                "metadata": {"name": name},
                "spec": {
                    "jobMode": mxnet.DIST,
                    "runPolicy": {"backoffLimit": 1, "ttlSecondsAfterFinished": 1},
                    "replicaSpecs": [
                        {"mxReplicaType": each, "template": template} for each in types
                    ],
                },
            }
        )
        children = ("jobs,services", "-l", f"{MX_LABEL_NAME}={name}")
        user.until("its children", lambda: len(user.items(*children)) == 4)
        for child in user.items(*children):
            self.implied |= implied(child, PLURALS)
        user.until("the job is deleted", lambda: not user.get(kind, name))

    def connected_by_ssh(self) -> None:
        """Create and delete everything that an MPICluster may have, and finally the cluster."""
        user, name, on = self.user, "hosts", {"enabled": True}
        options = {"networkPolicy": on, "ssh": {"gateway": on}}
        user.create(mpi_cluster(name, **options))
        user.until("the master runs", lambda: self._phase_of(name) == "Running")
        children = (MPI_CHILDREN, "-l", f"{MPI_LABEL_NAME}={name}")
        found = user.items(*children)
        assert len(found) == 8, [(child["kind"], child["metadata"]["name"]) for child in found]
        for child in found:
            self.implied |= implied(child, PLURALS)
        master = user.get("pod", f"{name}-master")
        self.implied |= implied(master, PLURALS)
        self.label_comes_back("poddisruptionbudget", f"{name}-worker-pdb", MPI_LABEL_NAME)
        self.label_comes_back("networkpolicy", f"{name}-allow-internal", MPI_LABEL_NAME)

        self._edit(name, {"ssh": {"keyGeneration": 2}})
        user.until("the keys are replaced", lambda: self._key_generation_of(name) == 2)

        off = {"enabled": False}
        workers = {"replicas": 0, "podDisruptionBudget": off}
        self._edit(name, {"networkPolicy": off, "ssh": {"gateway": off}, "workers": workers})
        user.until("the optional ones are gone", lambda: len(user.items(*children)) == 4)
        user.until("the worker is gone", lambda: not user.get("pod", f"{name}-worker-0"))
        self._edit(name, {"runPolicy": {"activeDeadlineSeconds": 1, "ttlSecondsAfterFinished": 1}})
        user.until("the cluster is deleted", lambda: not user.get("mpicluster", name))

    def _edit(self, cluster: str, spec: Document) -> None:
        patch = json.dumps({"spec": spec})
        self.user.kubectl("patch", "mpicluster", cluster, "--type=merge", "-p", patch)

    def _key_generation_of(self, cluster: str) -> int:
        return int(self.user.get("mpicluster", cluster)["status"].get("sshKeyGeneration", 0))

    def _phase_of(self, cluster: str) -> str:
        return str(self.user.get("mpicluster", cluster).get("status", {}).get("phase"))

    def label_comes_back(self, kind: str, name: str, label: str) -> None:
        """Remove the label by which an object is selected."""
        user = self.user
        user.kubectl("label", kind, name, f"{label}-")
        user.until(
            f"the label of {kind}/{name} is back",
            lambda: label in user.get(kind, name)["metadata"].get("labels", {}),
        )

    def log_is_read(self) -> None:
        """Run a program whose final output is kept only in torchrun's report."""
        script = f"cat <<'END'\n{NO_WORDS}END\nexit 1"
        self.user.create(elastic_job("hidden-cause", script, workers=1))
        self.user.until(
            "the job has failed",
            lambda: (
                "rank 1 failed with exit code 1"
                in self.elastic_status("hidden-cause").get("message", "")
            ),
        )
        self.user.kubectl("delete", "elasticjob", "hidden-cause")

    def elastic_status(self, job: str) -> Document:
        status: Document = self.user.get("elasticjob", job).get("status", {})
        return status

    def edit_elastic(self, job: str, spec: Document) -> None:
        patch = json.dumps({"spec": spec})
        self.user.kubectl("patch", "elasticjob", job, "--type=merge", "-p", patch)

    def something_in_the_way_of_a_worker(self, document: Document) -> None:
        user, job = self.user, f"no-{document['kind'].lower()}"
        name = f"{job}-worker-0"
        metadata = {**document.get("metadata", {}), "name": name}
        user.create({**document, "metadata": metadata})
        user.create(elastic_job(job, work(600), workers=1))
        user.until(
            f"{job} reports the existing object",
            lambda: f'"{name}" already exists' in self.elastic_status(job).get("message", ""),
        )
        user.kubectl("delete", "elasticjob", job)

    def something_in_the_way_of_a_cluster(self, child: str, document: Document) -> None:
        user, name = self.user, f"no-{document['kind'].lower()}"
        user.create({**document, "metadata": {"name": f"{name}-{child}"}})
        user.create(mpi_cluster(name, networkPolicy={"enabled": True}))
        user.until(
            f"{name} reports the existing object",
            lambda: (
                f'"{name}-{child}" already exists'
                in user.get("mpicluster", name).get("status", {}).get("message", "")
            ),
        )
        user.kubectl("delete", "mpicluster", name)

    def something_in_the_way(self, child: str, document: Document) -> None:
        """Create an object that has the name of a child and is not managed by the operator."""
        user = self.user
        kind = document["kind"].lower()
        user.create({**document, "metadata": {"name": f"{kind}-{child}"}})
        user.create(chainer_job(kind, work(600), workers=1))
        user.until_phase(
            kind, "Created", reason="ErrResourceExists", message=f'"{kind}-{child}" already exists'
        )
        self.take_notes()
        user.kubectl("delete", "chainerjob", kind)


def mpi_cluster(name: str, **spec: Any) -> Document:
    """Return an MPICluster with one worker, whose pods run a shell script instead of sshd."""

    def template(container: str) -> Document:
        ready = {"exec": {"command": ["true"]}, "periodSeconds": 1}
        found = template_of(UNTIL_TOLD)
        found["spec"]["containers"][0] |= {"name": container, "readinessProbe": ready}
        return found

    budget = {"podDisruptionBudget": {"enabled": True}}
    return {
        "apiVersion": "traincrew.dev/v1alpha1",
        "kind": "MPICluster",
        "metadata": {"name": name},
        "spec": {
            "master": {"template": template("mpi-master")},
            "workers": {"replicas": 1, "template": template("mpi-worker"), **budget},
            **spec,
        },
    }


def pod_template(policy: str) -> Document:
    container = {"name": "c", "image": IMAGE, "command": ["true"]}
    return {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"restartPolicy": policy, "containers": [container]},
    }


FOREIGN: dict[str, Document] = {
    "launcher": {"apiVersion": "v1", "kind": "ServiceAccount"},
    "launcher-role": {"apiVersion": f"{RBAC}/v1", "kind": "Role", "rules": []},
    "launcher-rolebinding": {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "x"},
    },
    "assets": {"apiVersion": "v1", "kind": "ConfigMap"},
    "workerset-ws0": {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"a": "b"}},
            "template": pod_template("Always"),
        },
    },
    "master": {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "spec": {"suspend": True, "template": pod_template("Never")},
    },
}
"""Objects with the name of a child, by what follows the job's name in it."""

FOREIGN_SERVICE: Document = {
    "apiVersion": "v1",
    "kind": "Service",
    "spec": {"clusterIP": "None", "selector": {"a": "b"}},
}

FOREIGN_TO_MPI: dict[str, Document] = {
    "ssh-key": {"apiVersion": "v1", "kind": "Secret"},
    "worker-pdb": {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}},
    },
    "allow-internal": {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "spec": {"podSelector": {}},
    },
}
"""Those that only an MPICluster has, by what follows its name in theirs."""
