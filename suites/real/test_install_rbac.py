"""Least privilege on a cluster that enforces it, checked against its audit log.

The operator is installed from `deploy/` and handles everything that happens to jobs. Then the audit
log has all its requests, and those of the pods of its jobs: none may have been denied, and every
granted permission must have been used.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hack.cluster.processes import NotReady

from authorization import Permission, implied, judge, of_account, of_rules
from plan.shared.test_pods import NO_WORDS
from traincrew.api.kinds.mxjob import types as mxnet
from traincrew.plan.chainerjob.children import LABEL_NAME, PATHS
from traincrew.plan.mxjob.children import LABEL_NAME as MX_LABEL_NAME

from .faults.jobs import IMAGE, UNTIL_TOLD, chainer_job, work
from .install_support import (
    ACCOUNT,
    DEPLOY,
    NAME,
    User,
    denied,
    elastic_job,
    namespace,
    uninstall,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hack.cluster import RealCluster

Document = dict[str, Any]
SPACE = "install-rbac"
PLURALS = {"ChainerJob": "chainerjobs", "ElasticJob": "elasticjobs", "MxJob": "mxjobs"}
CHILDREN = "serviceaccounts,roles,rolebindings,configmaps,statefulsets,jobs"
ELASTIC = "group-name=elastic.pytorch.org"
RBAC = "rbac.authorization.k8s.io"

STREAMED = {
    "serviceaccounts",
    "configmaps",
    "roles",
    "rolebindings",
    "statefulsets",
    "jobs",
    "services",
    "pods",
}
"""Listed only where the API server's feature WatchList is off, which it is not here. The test of
the embedded cluster (`tests/operator/test_manifests_rbac.py`) has one without it."""

NEW_KIND = "cannot find RESTMapping"
"""Error of admission about a kind it has not discovered yet; discovery runs every 30 s."""

KEPT = {Permission("", "pods", "list")}
"""In the Role of a job since kubeflow/chainer-operator; our own scripts do not need it."""


@pytest.fixture
def user(cluster: RealCluster) -> Iterator[User]:
    """A user with jobs, and an operator installed from `deploy/`."""
    uninstall(cluster)
    with namespace(cluster, SPACE) as found:
        cluster.kubectl("create", "-f", str(DEPLOY))
        found.rolled_out()
        yield found
    uninstall(cluster)


def test_everything_granted_is_used_and_nothing_is_denied(cluster: RealCluster, user: User) -> None:
    life = Life(cluster, user)
    life.live()

    entries = user.requests(ACCOUNT)
    judgement = judge(granted(), {of_audit(entry) for entry in entries} | life.implied)
    unused = [
        permission
        for permission in judgement.unused
        if not (permission.verb == "list" and permission.resource in STREAMED)
    ]
    assert [text for entry in entries if (text := refusal(entry))] == []
    assert judgement.denied == []
    assert unused == []

    # And what the operator holds only in order to grant it: the pods of the job need it.
    pods = {
        of_audit(entry)
        for entry in user.requests(f"system:serviceaccount:{SPACE}:life-launcher")
        if not refusal(entry)
    }
    # Checked by the API server itself when a command is started over a websocket.
    pods |= {each._replace(verb="create") for each in pods if each.resource == "pods/exec"}
    used = {each[:3] for each in pods}
    assert {each[:3] for each in life.role} - used == {each[:3] for each in KEPT}


def granted() -> set[Permission]:
    """Return the permissions that `deploy/` grants to the operator."""
    documents = [
        document
        for path in sorted(DEPLOY.glob("*.yaml"))
        for document in yaml.load_all(path.read_text(), yaml.CSafeLoader)
    ]
    return of_account(documents, NAME, NAME)


def refusal(entry: Document) -> str:
    """Return why a request was denied; empty if it was not, or not some seconds later."""
    status = entry.get("responseStatus", {})
    text = str(status.get("message", ""))
    return text if status.get("code") == 403 and NEW_KIND not in text else ""


@pytest.mark.parametrize(
    ("verbs", "requests"),
    [(["get", "create"], 1), (["create"], 2), (["get"], None)],
    ids=["both", "create", "get"],
)
def test_what_kubectl_exec_takes(
    cluster: RealCluster, verbs: list[str], requests: int | None
) -> None:
    """The Role of a job needs both verbs: with `create` alone kubectl tries twice."""
    uninstall(cluster)
    with namespace(cluster, SPACE) as user:
        pod = chainer_job("target", work(600))["spec"]["master"]["template"]
        user.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "target"}, **pod})
        user.kubectl("create", "serviceaccount", "caller")
        rules = [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
            {"apiGroups": [""], "resources": ["pods/exec"], "verbs": verbs},
        ]
        metadata = {"name": "caller"}
        user.create(
            {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": metadata, "rules": rules}
        )
        user.kubectl(
            "create", "rolebinding", "caller", "--role=caller", f"--serviceaccount={SPACE}:caller"
        )
        user.kubectl("wait", "pod/target", "--for=condition=Ready", "--timeout=120s")
        caller = f"system:serviceaccount:{SPACE}:caller"
        user.until("the role", lambda: reads_pods(user, caller))
        before = len(executed(user, caller))
        exec_as = [f"--as={caller}", "exec", "target", "--", "echo", "hello"]
        if requests is None:
            with pytest.raises(NotReady, match='cannot create resource "pods/exec"'):
                user.kubectl(*exec_as)
            return
        assert user.kubectl(*exec_as).strip() == "hello"
        assert len(executed(user, caller)) - before == requests


def executed(user: User, account: str) -> set[str]:
    """Return the requests for commands in pods, by their identity in the audit log."""
    entries = user.requests(account)
    return {
        entry["auditID"] for entry in entries if entry["objectRef"].get("subresource") == "exec"
    }


def reads_pods(user: User, account: str) -> bool:
    try:
        return bool(user.kubectl(f"--as={account}", "get", "pod", "target", "-o", "name"))
    except NotReady:
        return False


def test_without_the_finalizers_permission_no_child_can_be_created(
    cluster: RealCluster, user: User
) -> None:
    """An admission plugin checks it, not in the audit log; a job reports the missing right."""
    role = json.loads(cluster.kubectl("get", "clusterrole", NAME, "-o", "json"))
    role["rules"] = [
        rule for rule in role["rules"] if rule["resources"] != ["chainerjobs/finalizers"]
    ]
    cluster.kubectl("replace", "-f", "-", stdin=json.dumps(role))
    may = ("update", "chainerjobs", "--subresource=finalizers", f"--as={ACCOUNT}")
    user.until("the API server has seen it", lambda: denied(cluster, *may))
    user.create(chainer_job("held-up", "echo hello"))

    text = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't"
    user.until_phase("held-up", "Created", reason="FailedSynced", message=text)
    cluster.kubectl("apply", "-f", str(DEPLOY / "2-rbac.yaml"))
    user.until_phase("held-up", "Succeeded")


def of_audit(entry: Document) -> Permission:
    """Return the permission that a request needed."""
    reference = entry["objectRef"]
    subresource = reference.get("subresource")
    return Permission(
        reference.get("apiGroup", ""),
        reference["resource"] + (f"/{subresource}" if subresource else ""),
        entry["verb"],
        reference.get("namespace"),
        reference.get("name"),
    )


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
        for group in (mxnet.GROUP, mxnet.OLDER_GROUP):
            self.parameter_servers(group)
        self.log_is_read()
        for document in (
            FOREIGN_SERVICE,
            {"apiVersion": "v1", "kind": "Pod", **pod_template("Never")},
        ):
            self.something_in_the_way_of_a_worker(document)

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
