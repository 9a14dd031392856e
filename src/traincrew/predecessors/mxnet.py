"""The charts of mxnet-operator, with its values: one installs the operator, the other a job.

The operator's chart installs the objects of every other installation, under the names that
mxnet-operator had, and with its ConfigMap of accelerators. Values that mxnet-operator did not have
are in the chart ``traincrew``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Struct

from traincrew.operator.manifests import crds, rbac, workload
from traincrew.operator.manifests.chartvalues import schema_text, values_text
from traincrew.operator.manifests.helm import HelmWriter
from traincrew.operator.manifests.template import (
    Document,
    Expression,
    Filling,
    Image,
    Namespace,
    Value,
    text,
)
from traincrew.operator.manifests.values import DEFAULTS, Values, plain
from traincrew.operator.manifests.yamltext import dump
from traincrew.operator.options import HELPER_IMAGE, VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

OPERATOR_CHART = "mx-job-operator-chart"
JOB_CHART = "mx_job"
NAME = "mx-job-operator"
CONFIG_MAP = "mx-job-operator-config"
CONFIG_KEY = "controller_config_file.yaml"
CONFIG = """\
accelerators:
  alpha.kubernetes.io/nvidia-gpu:
    volumes:
      - name: nvidia-libraries
        mountPath: /usr/local/nvidia # The image expects it there, in /etc/ld.so.conf.
        hostPath: /var/lib/nvidia-docker/volumes/nvidia_driver/current
"""
"""The accelerators of mxnet-operator's own installation."""
CONFIG_DIRECTORY = "/etc/config"

ImageName = Annotated[str, Meta(pattern=r"^\S+$")]


class OperatorValues(Struct, frozen=True, forbid_unknown_fields=True):
    """Values of the operator's chart, spelled as mxnet-operator does."""

    image: Annotated[
        ImageName, Meta(description="Image of the operator, with its registry and tag.")
    ] = f"{DEFAULTS.image.repository}:{VERSION}"
    test_image: Annotated[
        ImageName,
        Meta(description="Image of the MxJob that `helm test` runs; it needs a POSIX shell."),
    ] = HELPER_IMAGE


class JobValues(Struct, frozen=True, forbid_unknown_fields=True):
    """Values of the job's chart, spelled as mxnet-operator does."""

    image: Annotated[
        ImageName, Meta(description="Image with MXNet and train_cifar10.py, the example's program.")
    ] = f"traincrew/mxnet:{VERSION}"


class _ForHelm(Filling, frozen=True):
    """Fills in everything but the namespace and the operator's image."""

    def fill(self, node: Any) -> Any:
        match node:
            case Namespace():
                return node
            case Image("image"):
                return Value("image")
        return super().fill(node)


# -- the operator -----------------------------------------------------------------------------


def operator_chart() -> dict[str, str]:
    """Return the files of the operator's chart by path."""
    values = Values(name=NAME, pod_labels={"name": NAME})
    filling = _ForHelm(plain(values), "", VERSION)
    defaults = msgspec.to_builtins(OperatorValues())
    writer = HelmWriter(defaults)
    shared: dict[str, list[Any]] = {
        "disruption-budget": [workload.disruption_budget()],
        "metrics": [workload.service()],
        "network-policy": [workload.network_policy()],
        "operator-role": [*rbac.operator_role(), *rbac.operator_binding()],
        "leader-election-role": [rbac.lease_role(), rbac.lease_binding()],
        "service-account": [rbac.service_account()],
        "user-roles": [*rbac.user_roles().values()],
    }
    templates: dict[str, list[Any]] = {
        "config-map": [config_map()],
        "deployment": [configured(filling.fill(workload.deployment()))],
        **{name: filling.fill(nodes) for name, nodes in shared.items()},
        "tests/access": _test_access(),
        "tests/basic-test": [_test_pod()],
    }
    return {
        "Chart.yaml": dump(_chart(NAME, "Operator for MXNet training jobs (MxJob) and others.")),
        "values.yaml": values_text(OperatorValues, defaults),
        "values.schema.json": schema_text(OPERATOR_CHART, OperatorValues),
        "templates/NOTES.txt": _NOTES,
        crds.FILE: crds.text(),
        "templates/crd.yaml": crds.TEMPLATE,
        **{f"templates/{name}.yaml": writer.write(nodes) for name, nodes in templates.items()},
    }


def config_map() -> Document:
    """Return the ConfigMap with the accelerators."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_MAP, "namespace": Namespace()},
        "data": {CONFIG_KEY: CONFIG},
    }


def additions() -> dict[str, list[Any]]:
    """Return what reads the ConfigMap, by the list of the Deployment's pod or container."""
    volume = "config-volume"
    return {
        "containers/0/args": [f"--controller_config_file={CONFIG_DIRECTORY}/{CONFIG_KEY}"],
        "containers/0/env": [
            {"name": name, "valueFrom": {"fieldRef": workload.field_ref(path)}}
            for name, path in (
                ("MY_POD_NAMESPACE", "metadata.namespace"),
                ("MY_POD_NAME", "metadata.name"),
            )
        ],
        "containers/0/volumeMounts": [{"name": volume, "mountPath": CONFIG_DIRECTORY}],
        "volumes": [{"name": volume, "configMap": {"name": CONFIG_MAP}}],
    }


def configured(deployment: Document) -> Document:
    """Return the operator's Deployment with the ConfigMap, under mxnet-operator's names."""
    template = deployment["spec"]["template"]
    (container,) = template["spec"]["containers"]
    pod = {**template["spec"], "containers": [{**container, "name": NAME}]}
    for path, added in additions().items():
        parent, _, name = path.rpartition("/")
        target = pod["containers"][0] if parent else pod
        target[name] = [*target.get(name, []), *added]
    return {
        **deployment,
        "spec": {**deployment["spec"], "template": {**template, "spec": pod}},
    }


def patches() -> Iterator[dict[str, Any]]:
    """Yield the operations of a JSON patch that do the same as `configured`, but for names."""
    existing = {"containers/0/args", "containers/0/env"}
    for path, added in additions().items():
        where = f"/spec/template/spec/{path}"
        if path in existing:
            yield from ({"op": "add", "path": f"{where}/-", "value": each} for each in added)
        else:
            yield {"op": "add", "path": where, "value": added}


# -- helm test --------------------------------------------------------------------------------

_TEST = text(Expression(".Release.Name"), "-mxjob-test")


def _test_access() -> list[Document]:
    """Return a service account that may create and delete MxJobs in the release's namespace.

    It is not a hook: Helm 3 would ask for the logs of everything that is one.
    """
    metadata = {"name": _TEST, "namespace": Namespace()}
    rule = {
        "apiGroups": ["mxnet.mlkube.io"],
        "resources": ["mxjobs"],
        "verbs": ["create", "get", "delete"],
    }
    api = f"{rbac.RBAC}/v1"
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": api, "kind": "Role", "metadata": metadata, "rules": [rule]},
        {
            "apiVersion": api,
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": rbac.RBAC, "kind": "Role", "name": _TEST},
            "subjects": [{"kind": "ServiceAccount", "name": _TEST, "namespace": Namespace()}],
        },
    ]


def _test_pod() -> Document:
    """Return the pod that runs an MxJob; its name differs each time, so that it can be repeated."""
    suffix = Expression("randAlphaNum 6 | lower")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": text(_TEST.parts[0], "-mxjob-test-", suffix),
            "namespace": Namespace(),
            "annotations": {
                # Helm calls it "test" today; this is its name in mxnet-operator's chart.
                "helm.sh/hook": "test-success",
                # It stays for `helm test --logs`, and is replaced by the next test.
                "helm.sh/hook-delete-policy": "before-hook-creation",
            },
            "labels": {"name": f"{NAME}-test"},
        },
        "spec": {
            "serviceAccountName": _TEST,
            "restartPolicy": "Never",
            "securityContext": workload.pod_security(),
            "containers": [
                {
                    "name": "basic-test",
                    "image": Value("image"),
                    "args": [
                        "verify",
                        text("--image=", Value("test_image")),
                        text("--namespace=", Namespace()),
                    ],
                    "securityContext": workload.container_security(),
                }
            ],
        },
    }


# -- the job ----------------------------------------------------------------------------------


def job_chart() -> dict[str, str]:
    """Return the files of the job's chart by path."""
    defaults = msgspec.to_builtins(JobValues())
    return {
        "Chart.yaml": dump(_chart(JOB_CHART, "A distributed MXNet training job (MxJob).")),
        "values.yaml": values_text(JobValues, defaults),
        "values.schema.json": schema_text(JOB_CHART, JobValues),
        "templates/mx_job.yaml": HelmWriter(defaults).write([_job()]),
    }


def _job() -> Document:
    """Return mxnet-operator's example: one scheduler, two servers, three workers with GPUs."""
    scheduler = {"replicas": 1, "PsRootPort": 9091, **_replicas("SCHEDULER")}
    servers = {"replicas": 2, **_replicas("SERVER")}
    workers = {
        "replicas": 3,
        **_replicas(
            "WORKER",
            "--num-epochs=10",
            "--model-prefix=./wltest",
            "--num-layers=2",
            "--kv-store=dist_device_sync",
        ),
    }
    pod = workers["template"]["spec"]
    pod["containers"][0]["resources"] = {"limits": {"alpha.kubernetes.io/nvidia-gpu": 1}}
    pod["tolerations"] = [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]
    return {
        "apiVersion": "mxnet.mlkube.io/v1beta1",
        "kind": "MxJob",
        "metadata": {"name": Expression(".Release.Name")},
        "spec": {"jobMode": "dist", "replicaSpecs": [scheduler, servers, workers]},
    }


def _replicas(role: str, *arguments: str) -> Document:
    container = {
        "image": Value("image"),
        "name": "mxnet",
        "command": ["python"],
        "args": ["train_cifar10.py", *arguments],
        "workingDir": "/mxnet/example/image-classification",
    }
    template = {"spec": {"containers": [container], "restartPolicy": "OnFailure"}}
    return {"mxReplicaType": role, "template": template}


def _chart(name: str, description: str) -> Document:
    return {
        "apiVersion": "v2",
        "name": name,
        "description": description,
        "type": "application",
        "version": VERSION,
        "appVersion": VERSION,
        "kubeVersion": ">=1.30.0-0",
    }


_NOTES = f"""\
{NAME} is installed in namespace {{{{ .Release.Namespace }}}}.
It serves the jobs of all namespaces.

Wait until it is ready, and check it with a job:

  kubectl --namespace {{{{ .Release.Namespace }}}} rollout status deployment/{NAME}
  helm test {{{{ .Release.Name }}}} --namespace {{{{ .Release.Namespace }}}}

The accelerators are in the ConfigMap {CONFIG_MAP}; after a change, restart the operator:

  kubectl --namespace {{{{ .Release.Namespace }}}} rollout restart deployment/{NAME}

Uninstalling this release keeps the CustomResourceDefinitions, and with them all jobs.
"""
