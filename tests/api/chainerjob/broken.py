"""Invalid manifests, and the field and fix that the error of each has to name."""

from __future__ import annotations

import copy
from typing import Any

from api.broken import ABSENT, Broken
from plan.chainerjob.world import distributed, plain

CONTAINER = {"name": "chainer", "image": "everpeace/chainermn:1.3.0"}
WORKERS = {"template": {"spec": {"containers": [CONTAINER]}}}


P = plain()
D = distributed()
MASTER = "spec/master/template/spec"
WORKER = "spec/workerSets/ws0/template/spec"
LONG = "x" * 57
DOTTED = copy.deepcopy(D)
DOTTED["metadata"]["name"] = "digits.mn"

REFUSED = [
    # -- parts that are missing, or are something else --
    Broken(P, "spec", ABSENT, ("spec: Required",)),
    Broken(P, "spec", [], ("spec", "object")),
    Broken(P, "spec/master", ABSENT, ("spec.master: Required",)),
    Broken(P, "spec/master", "x", ("spec.master", "object")),
    Broken(P, "spec/master/template", ABSENT, ("spec.master.template: Required",)),
    Broken(P, "spec/master/template", [], ("spec.master.template", "object")),
    Broken(P, MASTER, ABSENT, ("spec.master.template.spec: Required",)),
    Broken(P, f"{MASTER}/containers", ABSENT, ("template.spec.containers: Required",)),
    Broken(P, f"{MASTER}/containers", [], ("template.spec.containers", "at least 1")),
    Broken(P, f"{MASTER}/containers", {}, ("template.spec.containers", "array")),
    Broken(P, f"{MASTER}/containers/0", "chainer", ("template.spec.containers[0]", "object")),
    Broken(P, f"{MASTER}/containers/0/image", 5, ("containers[0].image", "string")),
    Broken(P, f"{MASTER}/containers/0/command", "python3", ("containers[0].command", "array")),
    Broken(P, f"{MASTER}/containers/0/args", [1], ("containers[0].args[0]", "string")),
    Broken(P, f"{MASTER}/containers/0/env", {"A": "b"}, ("containers[0].env", "unknown field")),
    Broken(
        P, f"{MASTER}/containers/0/env", [{"name": "A", "value": 1}],
        ("containers[0].env[0].value", "string"),
    ),
    Broken(P, f"{MASTER}/containers/0/env", [{"value": "b"}], ("env[0].name: Required",)),
    Broken(
        P, f"{MASTER}/containers/0/env", [{"name": "A"}, {"name": "A"}],
        ("containers[0].env[1]: Duplicate",),
    ),
    Broken(P, f"{MASTER}/containers/0/ports", [{"name": "a"}], ("containerPort: Required",)),
    Broken(
        P, f"{MASTER}/containers/0/ports", [{"containerPort": "80"}],
        ("ports[0].containerPort", "integer"),
    ),
    Broken(P, f"{MASTER}/containers/0/resources", "2Gi", ("containers[0].resources", "object")),
    Broken(
        P, f"{MASTER}/containers/0/resources", {"limits": {"memory": "lots"}},
        ("containers[0].resources.limits.memory",),
    ),
    Broken(P, f"{MASTER}/containers/0/resources", {"limits": []}, ("resources.limits", "object")),
    Broken(
        P, f"{MASTER}/containers/0/volumeMounts", [{"name": "a"}], ("mountPath: Required",)
    ),
    Broken(P, f"{MASTER}/volumes", {"a": {}}, ("template.spec.volumes", "unknown field")),
    Broken(P, f"{MASTER}/volumes", [{"emptyDir": {}}], ("volumes[0].name: Required",)),
    Broken(
        P, f"{MASTER}/volumes", [{"name": "a"}, {"name": "a"}], ("spec.volumes[1]: Duplicate",)
    ),
    Broken(P, f"{MASTER}/nodeSelector", ["gpu"], ("template.spec.nodeSelector", "object")),
    Broken(P, f"{MASTER}/nodeSelector", {"gpu": 1}, ("nodeSelector.gpu", "string")),
    Broken(P, f"{MASTER}/tolerations", {"key": "a"}, ("spec.tolerations", "unknown field")),
    Broken(P, f"{MASTER}/imagePullSecrets", "s", ("template.spec.imagePullSecrets", "array")),
    Broken(P, f"{MASTER}/terminationGracePeriodSeconds", "x", ("GracePeriodSeconds", "integer")),
    Broken(P, f"{MASTER}/hostNetwork", "yes", ("template.spec.hostNetwork", "boolean")),
    Broken(
        P, "spec/master/template/metadata", {"labels": {"a": 1}}, ("metadata.labels.a", "string")
    ),
    # -- words that do not exist --
    Broken(P, "spec/masters", {}, ('unknown field "spec.masters"',)),
    Broken(P, "spec/workers", 2, ('unknown field "spec.workers"',)),
    Broken(P, "spec/master/slots", 2, ('unknown field "spec.master.slots"',)),
    Broken(P, "spec/master/mpiConfig", {"slot": 2}, ('"spec.master.mpiConfig.slot"',)),
    Broken(P, f"{MASTER}/containers/0/imagee", "x", ('containers[0].imagee"',)),
    Broken(P, f"{MASTER}/containers/0/resources", {"limit": {}}, ('resources.limit"',)),
    Broken(P, f"{MASTER}/volume", [], ('"spec.master.template.spec.volume"',)),
    Broken(P, f"{MASTER}/ephemeralContainers", [], ("ephemeralContainers",)),
    Broken(D, "spec/workerSets/ws0/replica", 2, ('"spec.workerSets.ws0.replica"',)),
    Broken(D, "spec/workerSets/ws0/slots", 2, ('"spec.workerSets.ws0.slots"',)),
    Broken(P, "spec/runPolicy", {"suspended": True}, ('"spec.runPolicy.suspended"',)),
    Broken(
        P, "spec/runPolicy", {"schedulingPolicy": {"queueName": "q"}},
        ('"spec.runPolicy.schedulingPolicy.queueName"',),
    ),
    # -- numbers --
    Broken(P, "spec/master/activeDeadlineSeconds", "60", ("activeDeadlineSeconds", "integer")),
    Broken(P, "spec/master/activeDeadlineSeconds", 0, ("activeDeadlineSeconds", "to 1")),
    Broken(P, "spec/master/activeDeadlineSeconds", -1, ("activeDeadlineSeconds", "to 1")),
    Broken(P, "spec/master/backoffLimit", -1, ("spec.master.backoffLimit", "to 0")),
    Broken(P, "spec/master/backoffLimit", "3", ("spec.master.backoffLimit", "integer")),
    Broken(P, "spec/master/backoffLimit", 2**31, ("spec.master.backoffLimit", "2147483647")),
    Broken(D, "spec/master/mpiConfig/slots", 0, ("spec.master.mpiConfig.slots", "to 1")),
    Broken(D, "spec/master/mpiConfig/slots", -2, ("spec.master.mpiConfig.slots", "to 1")),
    Broken(D, "spec/master/mpiConfig/slots", "2", ("spec.master.mpiConfig.slots", "integer")),
    Broken(D, "spec/master/mpiConfig/slots", 1.5, ("spec.master.mpiConfig.slots", "integer")),
    Broken(D, "spec/master/mpiConfig", 2, ("spec.master.mpiConfig", "object")),
    Broken(D, "spec/workerSets/ws0/mpiConfig/slots", 0, ("ws0.mpiConfig.slots", "to 1")),
    Broken(D, "spec/workerSets/ws0/replicas", -1, ("spec.workerSets.ws0.replicas", "to 0")),
    Broken(D, "spec/workerSets/ws0/replicas", "2", ("spec.workerSets.ws0.replicas", "integer")),
    Broken(D, "spec/workerSets/ws0/replicas", 1.5, ("spec.workerSets.ws0.replicas", "integer")),
    Broken(D, "spec/workerSets/ws0/replicas", 5001, ("spec.workerSets.ws0.replicas", "5000")),
    # -- the run policy --
    Broken(P, "spec/runPolicy", [], ("spec.runPolicy", "object")),
    Broken(P, "spec/runPolicy", {"suspend": "yes"}, ("spec.runPolicy.suspend", "boolean")),
    Broken(P, "spec/runPolicy", {"backoffLimit": -1}, ("spec.runPolicy.backoffLimit", "to 0")),
    Broken(
        P, "spec/runPolicy", {"ttlSecondsAfterFinished": -1},
        ("spec.runPolicy.ttlSecondsAfterFinished", "to 0"),
    ),
    Broken(
        P, "spec/runPolicy", {"activeDeadlineSeconds": 0},
        ("spec.runPolicy.activeDeadlineSeconds", "to 1"),
    ),
    Broken(
        P, "spec/runPolicy", {"cleanPodPolicy": "Some"},
        ("spec.runPolicy.cleanPodPolicy", '"All", "None", "Running"'),
    ),
    Broken(
        P, "spec/runPolicy", {"schedulingPolicy": {"scheduleTimeoutSeconds": 0}},
        ("schedulingPolicy.scheduleTimeoutSeconds", "to 1"),
    ),
    Broken(
        P, "spec", {**P["spec"], "runPolicy": {"backoffLimit": 1},
                    "master": {**P["spec"]["master"], "backoffLimit": 2}},
        ("spec", "set master.backoffLimit or runPolicy.backoffLimit, not both"),
    ),
    # -- the backend --
    Broken(D, "spec/backend", 5, ("spec.backend", "string")),
    Broken(D, "spec/backend", "x" * 64, ("spec.backend", "63")),
    # -- worker sets --
    Broken(D, "spec/workerSets", [], ("spec.workerSets", "object")),
    Broken(D, "spec/workerSets", {"ws0": "x"}, ("spec.workerSets.ws0", "object")),
    Broken(
        D, "spec/workerSets", {f"w{index}": WORKERS for index in range(65)},
        ("spec.workerSets", "at most 64"),
    ),
    *(
        Broken(D, "spec/workerSets", {name: WORKERS}, ("spec.workerSets", "lower case letters"))
        for name in ("WS0", "ws_0", "-ws", "ws-", "w.s", "")
    ),
    Broken(D, "spec/workerSets", {"master": WORKERS}, ("spec.workerSets", "'master'")),
    Broken(D, "spec/workerSets/ws0/template", ABSENT, ("ws0.template: Required",)),
    Broken(D, WORKER, ABSENT, ("spec.workerSets.ws0.template.spec: Required",)),
    Broken(D, f"{WORKER}/containers", ABSENT, ("ws0.template.spec.containers: Required",)),
    Broken(D, f"{WORKER}/containers", [], ("ws0.template.spec.containers", "at least 1")),
    # -- restart policies --
    *(
        Broken(
            D, f"{WORKER}/restartPolicy", policy,
            ("spec.workerSets[ws0]", "restartPolicy", "only Always"),
        )
        for policy in ("Never", "OnFailure", "Sometimes")
    ),
    *(
        Broken(
            P, f"{MASTER}/restartPolicy", policy,
            ("spec.master", "restartPolicy", "Never or OnFailure"),
        )
        for policy in ("Always", "never")
    ),
    # -- the container MPI runs in --
    Broken(
        P, f"{MASTER}/containers", [{"name": "a"}, {"name": "b"}],
        ("spec.master", "template.spec.containers must be named 'chainer'"),
    ),
    Broken(
        D, f"{WORKER}/containers", [{"name": "a"}, {"name": "b"}],
        ("spec.workerSets[ws0]", "template.spec.containers must be named 'chainer'"),
    ),
    Broken(
        D, f"{MASTER}/containers/0/name", "main",
        ("spec", "master.template.spec.containers must be named 'chainer'"),
    ),
    Broken(
        D, f"{WORKER}/containers/0/name", "main",
        ("spec.workerSets[ws0]", "template.spec.containers must be named 'chainer'"),
    ),
    Broken(
        P, f"{MASTER}/containers", [CONTAINER, CONTAINER],
        ("master.template.spec.containers", "several containers have the same name"),
    ),
    Broken(
        P, f"{MASTER}/containers", [{"image": "a"}, {"image": "b"}],
        ("master.template.spec.containers", "name is required for each of several"),
    ),
    Broken(P, f"{MASTER}/containers/0/name", "x" * 64, ("containers[0].name", "63")),
    Broken(
        P, f"{MASTER}/containers", [CONTAINER, *({"name": f"c{n}"} for n in range(64))],
        ("template.spec.containers", "at most 64"),
    ),
    # -- names --
    Broken(P, "metadata/name", LONG, ("metadata.name must have at most 56 characters",)),
    Broken(
        D, "metadata/name", "x" * 39,
        ("metadata.name and a key of spec.workerSets together", "at most 41"),
    ),
    Broken(
        D, "spec/workerSets", {"w" * 33: WORKERS},
        ("metadata.name and a key of spec.workerSets together", "at most 41"),
    ),
    Broken(D, "metadata/name", "digits.mn", ("metadata.name", "replace '.' by '-'")),
    Broken(P, "metadata/name", "Digits", ("metadata.name", "lower case")),
    Broken(P, "metadata/name", "digits_mn", ("metadata.name", "lower case")),
    Broken(P, "metadata/name", "x" * 254, ("metadata.name", "253")),
    Broken(P, "metadata", {}, ("name",)),
    Broken(P, "metadata/labels", {"a": "b c"}, ("metadata.labels", "b c")),
]  # fmt: skip

VOLUME = {"name": "chainer-operator-volume-assets", "emptyDir": {}}
DATA = {"name": "data", "emptyDir": {}}


def mounting(path: str, **more: Any) -> dict[str, Any]:
    """A container that mounts the volume data."""
    return {**CONTAINER, **more, "volumeMounts": [{"name": "data", "mountPath": path}]}


def with_volume(container: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A pod that has the volume data."""
    return {"containers": [container], "volumes": [DATA], **more}


FAILED = [
    Broken(D, "spec/backend", "gloo", ('spec.backend: backend:"gloo" not supported', '"mpi"')),
    Broken(D, "spec/backend", "", ('spec.backend: backend:"" not supported',)),
    Broken(
        D, "spec/workerSets",
        {name: {**WORKERS, "replicas": 5000} for name in ("a", "b", "c")},
        ("spec.workerSets: 15000 workers; at most 5000",),
    ),
    Broken(
        D, "spec/workerSets", {"x-workerset-y": WORKERS},
        ("spec.workerSets.x-workerset-y: the key contains '-workerset-'", "choose another key"),
    ),
    # -- what is ours --
    Broken(
        D, f"{MASTER}/volumes", [VOLUME],
        ("spec.master.template.spec.volumes[0].name", "choose another"),
    ),
    Broken(
        D, f"{WORKER}/volumes", [DATA, VOLUME],
        ("spec.workerSets.ws0.template.spec.volumes[1].name", "choose another"),
    ),
    Broken(
        D, f"{MASTER}/initContainers", [{**CONTAINER, "name": "chainer-operator-x"}],
        ("spec.master.template.spec.initContainers[0].name", "choose another"),
    ),
    Broken(
        D, MASTER, with_volume(mounting("/kubeflow/chainer-operator")),
        ("containers[0].volumeMounts[0].mountPath", "somewhere else"),
    ),
    Broken(
        D, MASTER, with_volume(mounting("/kubeflow/chainer-operator/kube/")),
        ("containers[0].volumeMounts[0].mountPath", "somewhere else"),
    ),
    Broken(
        D, WORKER, with_volume(CONTAINER, initContainers=[
            mounting("/kubeflow/chainer-operator/assets/x", name="fetch")]),
        ("ws0.template.spec.initContainers[0].volumeMounts[0].mountPath", "somewhere else"),
    ),
    # -- what MPI needs --
    Broken(D, f"{MASTER}/hostname", "me", ("master.template.spec.hostname", "remove the field")),
    Broken(D, f"{MASTER}/hostNetwork", True, ("template.spec.hostNetwork", "remove the field")),
    Broken(D, f"{MASTER}/setHostnameAsFQDN", True, ("setHostnameAsFQDN", "remove the field")),
    Broken(
        D, f"{MASTER}/automountServiceAccountToken", False,
        ("spec.master.template.spec.automountServiceAccountToken", "remove the field"),
    ),
    # -- what only the Job or StatefulSet API knows --
    Broken(
        P, f"{MASTER}/containers/0/image", ABSENT,
        ("Job digits-master", "spec.template.spec.containers[0].image", "Required"),
    ),
    Broken(
        P, f"{MASTER}/containers/0/volumeMounts", [{"name": "no", "mountPath": "/a"}],
        ("Job digits-master", "containers[0].volumeMounts[0].name", "Not found"),
    ),
    Broken(
        P, f"{MASTER}/containers/0/name", "Chainer_1",
        ("Job digits-master", "containers[0].name", "Chainer_1"),
    ),
    Broken(
        P, "spec/master/template/metadata", {"labels": {"a": "b c"}},
        ("Job digits-master", "metadata.labels", "b c"),
    ),
    Broken(
        D, f"{WORKER}/containers/0/image", ABSENT,
        ("StatefulSet digits-mn-workerset-ws0", "containers[0].image", "Required"),
    ),
    Broken(
        D, f"{WORKER}/containers/0/imagePullPolicy", "Sometimes",
        ("StatefulSet digits-mn-workerset-ws0", "containers[0].imagePullPolicy", "Sometimes"),
    ),
    Broken(
        P, f"{MASTER}/containers/0/ports", [{"containerPort": 70000}],
        ("Job digits-master", "ports[0].containerPort", "70000"),
    ),
    Broken(
        P, f"{MASTER}/containers/0/env", [{"name": ""}],
        ("Job digits-master", "env[0].name", "Required"),
    ),
    Broken(
        P, f"{MASTER}/containers/0/resources", {"limits": {"nvidia.com/gpu": "1500m"}},
        ("Job digits-master", "resources.limits", "nvidia.com/gpu"),
    ),
    Broken(
        P, f"{MASTER}/containers/0/resources",
        {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}},
        ("Job digits-master", "resources.requests", "cpu"),
    ),
]  # fmt: skip
