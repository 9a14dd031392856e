"""MultiKueue: a queue of one cluster whose jobs run on another one."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import yaml
from suites.kueue.queue_user import API, DEPLOYMENT, PLURALS, SYSTEM

if TYPE_CHECKING:
    from suites.kueue.queue_user import Queues
    from suites.shell import Document

QUEUE = "far"
"""The queue whose jobs run on the other cluster; it has one of this name, too."""
_FRAMEWORKS = (
    "ElasticJob.v1alpha1.elastic.pytorch.org",
    "MxJob.v1beta1.mxnet.mlkube.io",
    "ChainerJob.v1alpha1.kubeflow.org",
    "MPICluster.v1alpha1.traincrew.dev",
)
_OTHER = "there"
_FILE = "controller_manager_config.yaml"


def configure(here: Queues) -> None:
    """Tell Kueue which kinds MultiKueue is to run elsewhere, and let it read and write them."""
    (name,) = (
        each["metadata"]["name"]
        for each in here.get("configmaps", *SYSTEM)["items"]
        if _FILE in each.get("data", {})
    )
    settings = yaml.safe_load(here.get("configmap", name, *SYSTEM)["data"][_FILE])
    # MultiKueue watches every kind that Kueue queues, and the other cluster must serve each.
    settings["integrations"] = {"frameworks": ["batch/job"]}
    settings["multiKueue"] = {"externalFrameworks": [{"name": each} for each in _FRAMEWORKS]}
    data = {_FILE: yaml.safe_dump(settings)}
    here.kubectl("patch", "configmap", name, *SYSTEM, "--patch", json.dumps({"data": data}))
    role = "multikueue-of-training-jobs"
    kinds = ",".join(PLURALS.values())
    here.kubectl("create", "clusterrole", role, "--verb=get,list,watch", f"--resource={kinds}")
    statuses = ",".join(f"{each}/status" for each in PLURALS.values())
    here.kubectl(
        "create", "clusterrole", f"{role}-status", "--verb=patch", f"--resource={statuses}"
    )
    account = f"{SYSTEM[1]}:kueue-controller-manager"
    for each in (role, f"{role}-status"):
        here.kubectl(
            *("create", "clusterrolebinding", each, f"--clusterrole={each}"),
            f"--serviceaccount={account}",
        )
    here.kubectl("rollout", "restart", DEPLOYMENT, *SYSTEM)
    here.kubectl("rollout", "status", DEPLOYMENT, *SYSTEM, "--timeout=120s")


def connect(here: Queues, there: Queues) -> None:
    """Create a queue of each cluster, so that jobs in the one here run there."""
    there.cluster_queue(QUEUE, "200m")
    text = there.kubectl("config", "view", "--raw", "--flatten", "--minify")
    here.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": _OTHER, "namespace": SYSTEM[1]},
            "data": {"kubeconfig": base64.b64encode(text.encode()).decode()},
        }
    )
    source = {"kubeConfig": {"locationType": "Secret", "location": _OTHER}}
    _create(here, "MultiKueueCluster", _OTHER, {"clusterSource": source})
    _create(here, "MultiKueueConfig", _OTHER, {"clusters": [_OTHER]})
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": _OTHER}
    check = {"controllerName": "kueue.x-k8s.io/multikueue", "parameters": parameters}
    _create(here, "AdmissionCheck", _OTHER, check)
    strategy = {"admissionChecks": [{"name": _OTHER}]}
    here.cluster_queue(QUEUE, "1", admissionChecksStrategy=strategy)
    here.kubectl("wait", "multikueueclusters", _OTHER, "--for=condition=Active", "--timeout=60s")


def _create(here: Queues, kind: str, name: str, spec: Document) -> None:
    here.apply({"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec})
