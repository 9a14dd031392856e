"""Invalid MxJobs, and the field and fix that the error of each has to name."""

from __future__ import annotations

from typing import Any

from api.broken import ABSENT, Broken
from plan.mxjob.manifests import distributed, local, older_readme, replica, template

D = distributed()
L = local()
NO_MODE: dict[str, Any] = {**D, "spec": {"replicaSpecs": D["spec"]["replicaSpecs"]}}
SCHEDULER = "spec/replicaSpecs/0"
WORKER = "spec/replicaSpecs/2"
POD = f"{WORKER}/template/spec"
CONTAINER = f"{POD}/containers/0"
TRAINER = {"name": "mxnet", "image": "traincrew/mxnet"}

README: dict[str, Any] = older_readme()
"""The sample in mxnet-operator's README; its mistakes are named one after the other."""
RENAMED: dict[str, Any] = {
    **README,
    "spec": {"jobMode": "dist", "replicaSpecs": README["spec"]["replica_specs"]},
}
BOTH_FIXED: dict[str, Any] = {
    **README,
    "spec": {
        "jobMode": "local",
        "replicaSpecs": [README["spec"]["replica_specs"][0] | {"mxReplicaType": "WORKER"}],
    },
}


def entries(*kinds: str) -> list[dict[str, Any]]:
    """Return entries of ``replicaSpecs``."""
    return [replica(kind) for kind in kinds]


def two(**more: Any) -> list[dict[str, Any]]:
    """Return two containers, of which the second one does not train."""
    return [TRAINER, {"image": "x", **more}]


REFUSED = [
    # -- the README of mxnet-operator --
    Broken(
        README, "metadata/name", "sample",
        ("replica_specs is not a field: write replicaSpecs", "jobMode is required: local ("),
    ),
    Broken(
        RENAMED, "metadata/name", "sample",
        ("replicaSpecs[0].mxReplicaType", '"MASTER"', '"SCHEDULER", "SERVER", "WORKER"'),
    ),
    Broken(
        BOTH_FIXED, "metadata/name", "sample",
        ("spec.replicaSpecs", "must have a container named 'mxnet'", "rename"),
    ),
    Broken(D, "spec/replica_specs", [], ("replica_specs is not a field: write replicaSpecs",)),
    Broken(D, "spec/replica_specs", "x", ("spec.replica_specs", "array")),
    Broken(README, "spec/tensorboard", {"logDir": "/tmp"}, ('unknown field "spec.tensorboard"',)),
    # -- the mode --
    Broken(NO_MODE, "metadata/name", "digits", ("jobMode is required: local (", "dist (")),
    *(
        Broken(D, "spec/jobMode", mode, ("spec.jobMode", '"dist", "local"'))
        for mode in ("distributed", "Dist", "LOCAL", "", "MXTrain")
    ),
    Broken(D, "spec/jobMode", 1, ("spec.jobMode", "string")),
    Broken(D, "spec/jobMode", [], ("spec.jobMode", "string")),
    # -- the list of replicas --
    Broken(D, "spec", ABSENT, ("spec: Required",)),
    Broken(D, "spec", {}, ("jobMode is required", "replicaSpecs is required")),
    Broken(D, "spec/replicaSpecs", ABSENT, ("replicaSpecs is required: the scheduler",)),
    Broken(D, "spec/replicaSpecs", [], ("replicaSpecs is required: the scheduler",)),
    Broken(L, "spec/replicaSpecs", [], ("replicaSpecs is required",)),
    Broken(D, "spec/replicaSpecs", {}, ("spec.replicaSpecs", "array")),
    Broken(D, "spec/replicaSpecs", "x", ("spec.replicaSpecs", "array")),
    Broken(D, "spec/replicaSpecs", [None], ("spec.replicaSpecs[0]", "object")),
    Broken(D, WORKER, None, ("spec.replicaSpecs[2]", "object")),
    Broken(D, WORKER, "WORKER", ("spec.replicaSpecs[2]", "object")),
    Broken(
        D, "spec/replicaSpecs", entries("SCHEDULER", "SERVER", "WORKER", "WORKER"),
        ("spec.replicaSpecs", "at most 3"),
    ),
    Broken(
        D, "spec/replicaSpecs", entries("SCHEDULER", "WORKER", "WORKER"),
        ("spec.replicaSpecs", "each mxReplicaType may occur only once: use replicas"),
    ),
    *(
        Broken(
            D, "spec/replicaSpecs", entries(*kinds),
            ("jobMode dist needs one entry each for SCHEDULER, SERVER and WORKER",),
        )
        for kinds in (
            ("SERVER", "WORKER"), ("SCHEDULER", "WORKER"), ("SCHEDULER", "SERVER"), ("WORKER",),
        )
    ),
    *(
        Broken(
            L, "spec/replicaSpecs", given,
            ("jobMode local needs exactly one entry, a WORKER with replicas: 1", "jobMode: dist"),
        )
        for given in (
            [replica("WORKER", 2)], entries("WORKER", "SERVER"), entries("SERVER"),
            entries("SCHEDULER", "SERVER", "WORKER"),
        )
    ),
    Broken(D, "spec/replicas", 3, ("an MxJob cannot be scaled", "replicas in replicaSpecs")),
    # -- one type --
    *(
        Broken(
            D, f"{WORKER}/mxReplicaType", kind,
            ("replicaSpecs[2].mxReplicaType", '"SCHEDULER", "SERVER", "WORKER"'),
        )
        for kind in ("MASTER", "worker", "PS", "")
    ),
    Broken(D, f"{WORKER}/mxReplicaType", 1, ("replicaSpecs[2].mxReplicaType", "string")),
    Broken(D, f"{WORKER}/replicaType", "WORKER", ('"spec.replicaSpecs[2].replicaType"',)),
    Broken(D, f"{SCHEDULER}/replicas", 2, ("replicas of the SCHEDULER must be 1",)),
    *(
        Broken(D, f"{WORKER}/replicas", number, ("replicaSpecs[2].replicas", "to 1"))
        for number in (0, -1)
    ),
    Broken(D, f"{WORKER}/replicas", "2", ("replicaSpecs[2].replicas", "integer")),
    Broken(D, f"{WORKER}/replicas", 1.5, ("replicaSpecs[2].replicas", "integer")),
    Broken(D, f"{WORKER}/replicas", 5001, ("replicaSpecs[2].replicas", "5000")),
    *(
        Broken(D, f"{SCHEDULER}/{name}", port, (f"replicaSpecs[0].{name}", limit))
        for name in ("PsRootPort", "psRootPort")
        for port, limit in ((0, "to 1"), (-1, "to 1"), (70000, "65535"), ("9091", "integer"))
    ),
    Broken(
        D, f"{SCHEDULER}/psRootPort", 9092,
        ("spec.replicaSpecs", "PsRootPort and psRootPort are the same field", "only PsRootPort"),
    ),
    Broken(D, f"{SCHEDULER}/PSRootPort", 9091, ('"spec.replicaSpecs[0].PSRootPort"',)),
    # -- the RuntimeId --
    *(
        Broken(D, f"spec/{name}", identifier, (f"spec.{name}", says))
        for name in ("RuntimeId", "runtimeId")
        for identifier, says in (
            ("AB12", "should match"), ("a.b", "should match"), ("-ab", "should match"),
            ("ab-", "should match"), ("", "should match"), ("x" * 17, "16"), (1, "string"),
        )
    ),
    Broken(
        distributed(RuntimeId="abcd"), "spec/runtimeId", "dcba",
        ("RuntimeId and runtimeId are the same field: write only RuntimeId",),
    ),
    Broken(D, "spec/runtime_id", "abcd", ('unknown field "spec.runtime_id"',)),
    # -- names --
    Broken(D, "metadata/name", "Digits", ("metadata.name", "lower case")),
    Broken(D, "metadata/name", "digits_mx", ("metadata.name", "lower case")),
    Broken(D, "metadata/name", "7digits", ("metadata.name", "must begin with a letter")),
    Broken(D, "metadata/name", "digits.mx", ("metadata.name", "only lower case letters")),
    Broken(D, "metadata/name", "x" * 47, ("metadata.name and spec.RuntimeId", "at most 50")),
    *(
        Broken(
            distributed("x" * 40), f"spec/{name}", "a" * 11,
            ("metadata.name and spec.RuntimeId", "at most 50"),
        )
        for name in ("RuntimeId", "runtimeId")
    ),
    Broken(D, "metadata/name", "x" * 254, ("metadata.name", "253")),
    Broken(D, "metadata", {}, ("name",)),
    # -- the template --
    Broken(D, f"{WORKER}/template", ABSENT, ("replicaSpecs[2].template: Required",)),
    Broken(D, f"{WORKER}/template", [], ("replicaSpecs[2].template", "object")),
    Broken(D, f"{WORKER}/template", None, ("replicaSpecs[2].template", "object")),
    Broken(D, POD, ABSENT, ("replicaSpecs[2].template.spec: Required",)),
    Broken(D, f"{POD}/containers", ABSENT, ("template.spec.containers: Required",)),
    Broken(D, f"{POD}/containers", [], ("template.spec.containers", "at least 1")),
    Broken(D, f"{POD}/containers", {}, ("template.spec.containers", "array")),
    Broken(D, CONTAINER, "mxnet", ("template.spec.containers[0]", "object")),
    *(
        Broken(
            D, f"{CONTAINER}/name", name,
            ("spec.replicaSpecs", "must have a container named 'mxnet'", "rename"),
        )
        for name in ("tensorflow", "main", "MXNet")
    ),
    Broken(
        D, f"{POD}/containers", [TRAINER, TRAINER], ("spec.containers", "have the same name"),
    ),
    Broken(D, f"{POD}/containers", [{"image": "a"}, {"image": "b"}], ("name is required for",)),
    Broken(D, f"{POD}/containers", two(), ("spec.containers", "name is required for each")),
    Broken(D, f"{CONTAINER}/name", "x" * 64, ("containers[0].name", "63")),
    Broken(
        D, f"{POD}/restartPolicy", "Always",
        ("spec.replicaSpecs", "template.spec.restartPolicy must be Never or OnFailure"),
    ),
    Broken(
        D, f"{POD}/restartPolicy", "Sometimes",
        ("spec.replicaSpecs", "template.spec.restartPolicy must be Never or OnFailure"),
    ),
    Broken(D, f"{POD}/restartPolicy", 1, ("template.spec.restartPolicy", "string")),
    Broken(D, f"{CONTAINER}/imagee", "x", ('containers[0].imagee"',)),
    Broken(D, f"{CONTAINER}/image", 5, ("containers[0].image", "string")),
    Broken(D, f"{CONTAINER}/command", "python", ("containers[0].command", "array")),
    Broken(D, f"{CONTAINER}/args", [1], ("containers[0].args[0]", "string")),
    Broken(D, f"{CONTAINER}/env", {"A": "b"}, ("containers[0].env", "unknown field")),
    Broken(D, f"{CONTAINER}/env", [{"name": "A", "value": 1}], ("env[0].value", "string")),
    Broken(D, f"{CONTAINER}/env", [{"name": "A"}, {"name": "A"}], ("env[1]: Duplicate",)),
    Broken(D, f"{CONTAINER}/resources", {"limit": {}}, ('resources.limit"',)),
    Broken(
        D, f"{CONTAINER}/resources", {"limits": {"alpha.kubernetes.io/nvidia-gpu": "one"}},
        ("containers[0].resources.limits.alpha.kubernetes.io/nvidia-gpu",),
    ),
    Broken(D, f"{POD}/tolerations", {"key": "gpu"}, ("spec.tolerations", "unknown field")),
    Broken(D, f"{POD}/volume", [], ('template.spec.volume"',)),
    Broken(D, f"{POD}/hostNetwork", "yes", ("template.spec.hostNetwork", "boolean")),
    # -- the policies --
    Broken(D, "spec/runPolicy", [], ("spec.runPolicy", "object")),
    Broken(D, "spec/runPolicy", {"suspend": "yes"}, ("spec.runPolicy.suspend", "boolean")),
    Broken(D, "spec/runPolicy", {"suspended": True}, ('"spec.runPolicy.suspended"',)),
    Broken(D, "spec/runPolicy", {"backoffLimit": -1}, ("spec.runPolicy.backoffLimit", "to 0")),
    Broken(D, "spec/runPolicy", {"cleanPodPolicy": "Some"}, ('"All", "None", "Running"',)),
    Broken(D, "spec/runPolicy", {"activeDeadlineSeconds": 0}, ("activeDeadlineSeconds", "to 1")),
    Broken(
        D, "spec/runPolicy", {"ttlSecondsAfterFinished": -1}, ("ttlSecondsAfterFinished", "to 0")
    ),
    Broken(
        D, "spec/runPolicy", {"schedulingPolicy": {"scheduleTimeoutSeconds": 0}},
        ("schedulingPolicy.scheduleTimeoutSeconds", "to 1"),
    ),
    Broken(D, "spec/recoverWorkers", "yes", ("spec.recoverWorkers", "boolean")),
    Broken(D, "spec/backoffLimit", 1, ('unknown field "spec.backoffLimit"',)),
    Broken(D, "spec/cleanPodPolicy", "All", ('unknown field "spec.cleanPodPolicy"',)),
]  # fmt: skip

JOB = "Job digits-worker-"
"""The Jobs have generated names."""
MOUNTS = [{"name": "no", "mountPath": "/a"}]
FAILED = [
    # -- what only the Job API knows --
    Broken(D, f"{CONTAINER}/image", ABSENT, (JOB, "containers[0].image", "Required")),
    Broken(D, f"{POD}/containers", two(name="Side_1"), (JOB, "containers[1].name", "Side_1")),
    Broken(
        D, f"{POD}/containers", two(name="side", imagePullPolicy="Sometimes"),
        (JOB, "containers[1].imagePullPolicy", "Sometimes"),
    ),
    Broken(D, f"{CONTAINER}/volumeMounts", MOUNTS, (JOB, "volumeMounts[0].name", "Not found")),
    Broken(D, f"{CONTAINER}/env", [{"name": ""}], (JOB, "].name: Required")),
    Broken(
        D, f"{CONTAINER}/ports", [{"containerPort": 70000}],
        (JOB, "ports[0].containerPort", "70000"),
    ),
    Broken(
        D, f"{CONTAINER}/resources", {"limits": {"nvidia.com/gpu": "1500m"}},
        (JOB, "resources.limits", "nvidia.com/gpu"),
    ),
    Broken(
        D, f"{CONTAINER}/resources", {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}},
        (JOB, "resources.requests", "cpu"),
    ),
    Broken(
        D, f"{WORKER}/template/metadata", {"labels": {"a": "b c"}},
        (JOB, "metadata.labels", "b c"),
    ),
    Broken(
        D, f"{POD}/initContainers", [{"name": "mxnet", "image": "x"}],
        (JOB, "initContainers[0].name", "Duplicate"),
    ),
    Broken(D, f"{POD}/activeDeadlineSeconds", 0, (JOB, "activeDeadlineSeconds")),
    Broken(
        D, f"{SCHEDULER}/template/spec/containers/0/image", ABSENT,
        ("Job digits-scheduler-", "containers[0].image", "Required"),
    ),
    Broken(
        L, "spec/replicaSpecs/0/template", template(image=""),
        ("Job digits-local-worker-", "containers[0].image", "Required"),
    ),
]  # fmt: skip
