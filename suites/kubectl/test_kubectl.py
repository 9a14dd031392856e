"""The commands users type, and their output."""

import json
import re
from pathlib import Path

import pytest

from traincrew.local.apiserver.http.node_backend import (
    ContainerUsage,
    NodeUsage,
    PodUsage,
    Usage,
)

from .conftest import Kubectl, Served

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {app: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: main
        image: busybox:1
        ports: [{containerPort: 80}]
"""
CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {color: red}
"""
POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: worker
  labels: {app: worker}
spec:
  nodeName: node-1
  containers:
  - name: main
    image: busybox:1
"""
DEFINITION = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: trains.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: trains, singular: train, kind: Train, shortNames: [tr], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.cars, statusReplicasPath: .status.cars}
    additionalPrinterColumns:
    - {name: Cars, type: integer, jsonPath: .spec.cars}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    schema:
      openAPIV3Schema:
        type: object
        description: A train.
        properties:
          spec:
            type: object
            properties:
              cars: {type: integer, minimum: 1, description: How long it is.}
          status:
            type: object
            properties:
              cars: {type: integer}
"""
TRAIN = "apiVersion: example.com/v1\nkind: Train\nmetadata: {name: night}\nspec: {cars: 3}\n"


def table(text: str) -> list[list[str]]:
    """Return the cells of a printed table."""
    return [re.split(r"\s{2,}", line.strip()) for line in text.splitlines() if line.strip()]


def test_create_get_delete(kubectl: Kubectl) -> None:
    assert kubectl("create", "-f", "-", stdin=DEPLOYMENT).out == "deployment.apps/web created\n"
    again = kubectl("create", "-f", "-", stdin=DEPLOYMENT, code=1)
    assert 'deployments.apps "web" already exists' in again.err
    head, row = table(kubectl("get", "deployments").out)
    assert head == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
    assert row[:4] == ["web", "0/1", "0", "0"]
    wide = table(kubectl("get", "deploy", "web", "-o", "wide").out)
    assert wide[0][-3:] == ["CONTAINERS", "IMAGES", "SELECTOR"]
    assert wide[1][-3:] == ["main", "busybox:1", "app=web"]
    document = json.loads(kubectl("get", "deploy/web", "-o", "json").out)
    assert document["spec"]["strategy"]["type"] == "RollingUpdate"
    yaml = kubectl("get", "deploy/web", "-o", "yaml").out
    assert "kind: Deployment" in yaml
    assert "managedFields" not in yaml
    assert "f:spec" in kubectl("get", "deploy/web", "-o", "yaml", "--show-managed-fields").out
    assert kubectl("get", "deploy", "-o", "name").out == "deployment.apps/web\n"
    path = "jsonpath={.items[*].spec.template.spec.containers[0].image}"
    assert kubectl("get", "deploy", "-o", path).out == "busybox:1"
    deleted = kubectl("delete", "deploy", "web").out
    assert 'deployment.apps "web" deleted' in deleted
    missing = kubectl("get", "deploy", "web", code=1)
    assert missing.err == 'Error from server (NotFound): deployments.apps "web" not found\n'
    assert kubectl("get", "deploy").err == "No resources found in default namespace.\n"


def test_generators(kubectl: Kubectl) -> None:
    """Newer versions send these as protobuf."""
    kubectl("create", "namespace", "team")
    kubectl("create", "configmap", "c", "--from-literal=a=b", "-n", "team")
    kubectl("create", "secret", "generic", "s", "--from-literal=password=x")
    kubectl("create", "serviceaccount", "robot")
    kubectl("create", "job", "j", "--image=busybox:1", "--", "true")
    kubectl("create", "cronjob", "cj", "--image=busybox:1", "--schedule=* * * * *")
    kubectl("create", "deployment", "d", "--image=busybox:1", "--replicas=2")
    kubectl("create", "service", "clusterip", "svc", "--tcp=80:80")
    kubectl("create", "role", "r", "--verb=get", "--resource=pods")
    kubectl("create", "rolebinding", "rb", "--role=r", "--serviceaccount=default:robot")
    kubectl("create", "clusterrole", "cr", "--verb=get", "--resource=pods")
    kubectl("create", "clusterrolebinding", "crb", "--clusterrole=cr", "--user=me")
    kubectl("create", "poddisruptionbudget", "b", "--selector=a=b", "--min-available=1")
    kubectl("create", "quota", "q", "--hard=pods=3")
    kubectl("create", "priorityclass", "high", "--value=5")
    kubectl("create", "ingress", "i", "--rule=example.com/*=svc:80")
    kubectl("run", "p", "--image=busybox:1")
    kubectl("expose", "deployment", "d", "--port=80")
    assert kubectl("create", "token", "robot").out.count(".") == 2
    job = json.loads(kubectl("get", "job", "j", "-o", "json").out)
    assert job["spec"]["template"]["spec"]["containers"][0]["command"] == ["true"]
    secret = json.loads(kubectl("get", "secret", "s", "-o", "json").out)
    assert secret["data"] == {"password": "eA=="}
    budget = json.loads(kubectl("get", "pdb", "b", "-o", "json").out)
    assert budget["spec"]["minAvailable"] == 1
    every = kubectl("get", "all").out
    for name in ("pod/p", "service/svc", "deployment.apps/d", "job.batch/j", "cronjob.batch/cj"):
        assert name in every
    assert "configmap/c" in kubectl("get", "cm,secret,sa", "-A").out


def test_apply_on_the_client_side(kubectl: Kubectl) -> None:
    assert kubectl("apply", "-f", "-", stdin=DEPLOYMENT).out == "deployment.apps/web created\n"
    assert kubectl("apply", "-f", "-", stdin=DEPLOYMENT).out == "deployment.apps/web unchanged\n"
    changed = DEPLOYMENT.replace("replicas: 1", "replicas: 3").replace("busybox:1", "busybox:2")
    difference = kubectl("diff", "-f", "-", stdin=changed, code=1).out
    assert "-  replicas: 1\n+  replicas: 3" in difference
    assert kubectl("apply", "-f", "-", stdin=changed, code=0).out.endswith("configured\n")
    document = json.loads(kubectl("get", "deploy", "web", "-o", "json").out)
    assert document["spec"]["replicas"] == 3
    assert document["spec"]["template"]["spec"]["containers"][0]["image"] == "busybox:2"
    assert document["metadata"]["generation"] == 2
    kubectl("diff", "-f", "-", stdin=changed)
    removed = changed.replace("  labels: {app: web}\nspec", "spec")
    kubectl("apply", "-f", "-", stdin=removed)
    assert "labels" not in json.loads(kubectl("get", "deploy", "web", "-o", "json").out)["metadata"]


def test_apply_on_the_server_side(kubectl: Kubectl) -> None:
    server_side = ("apply", "--server-side", "-f", "-")
    assert kubectl(*server_side, stdin=CONFIG_MAP).out == "configmap/settings serverside-applied\n"
    other = CONFIG_MAP.replace("red", "blue")
    refused = kubectl(*server_side, "--field-manager=other", stdin=other, code=1)
    assert 'conflict with "kubectl"' in refused.err
    assert ".data.color" in refused.err
    kubectl(*server_side, "--field-manager=other", "--force-conflicts", stdin=other)
    document = json.loads(kubectl("get", "cm", "settings", "-o", "json").out)
    assert document["data"] == {"color": "blue"}


def test_from_client_side_to_server_side(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=CONFIG_MAP)
    moved = kubectl("apply", "--server-side", "-f", "-", stdin=CONFIG_MAP.replace("red", "blue"))
    assert moved.out == "configmap/settings serverside-applied\n"
    text = kubectl("get", "cm", "settings", "-o", "json", "--show-managed-fields").out
    managers = {
        (entry["manager"], entry["operation"])
        for entry in json.loads(text)["metadata"]["managedFields"]
    }
    assert ("kubectl", "Apply") in managers
    assert ("kubectl-client-side-apply", "Update") not in managers


def test_apply_and_prune(kubectl: Kubectl) -> None:
    other = CONFIG_MAP.replace("settings}", "settings, labels: {set: one}}")
    kubectl("apply", "-f", "-", stdin=other)
    second = other.replace("settings,", "more,")
    pruned = kubectl("apply", "--prune", "-l", "set=one", "-f", "-", stdin=second)
    assert "configmap/settings pruned" in pruned.out
    assert kubectl("get", "cm", "-o", "name").out == "configmap/more\n"


def test_dry_run(kubectl: Kubectl) -> None:
    dry = kubectl("create", "-f", "-", "--dry-run=server", "-o", "yaml", stdin=DEPLOYMENT).out
    assert "progressDeadlineSeconds: 600" in dry
    dry = kubectl("apply", "-f", "-", "--dry-run=server", stdin=DEPLOYMENT).out
    assert "server dry run" in dry
    assert kubectl("get", "deploy").err == "No resources found in default namespace.\n"


def test_validation(kubectl: Kubectl) -> None:
    unknown = DEPLOYMENT.replace("  replicas", "  replica")
    refused = kubectl("create", "-f", "-", stdin=unknown, code=1)
    assert 'unknown field "spec.replica"' in refused.err
    warned = kubectl("create", "-f", "-", "--validate=warn", stdin=unknown)
    assert 'Warning: unknown field "spec.replica"' in warned.err
    wrong = DEPLOYMENT.replace("replicas: 1", "replicas: many")
    assert "spec.replicas" in kubectl("apply", "-f", "-", stdin=wrong, code=1).err
    negative = DEPLOYMENT.replace("replicas: 1", "replicas: -1")
    assert "spec.replicas" in kubectl("apply", "-f", "-", stdin=negative, code=1).err
    nowhere = kubectl("create", "-f", "-", "-n", "nowhere", stdin=CONFIG_MAP, code=1)
    assert 'namespaces "nowhere" not found' in nowhere.err


LIST = """\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: first}
- apiVersion: v1
  kind: Secret
  metadata: {name: second}
"""


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("kubeflow.org/v2", "MPIJob"),
        ("apps/v1", "Deploymint"),
        ("app/v1", "Deployment"),
        ("apps/v3", "Deployment"),
    ],
)
@pytest.mark.parametrize("command", ["create", "apply", "replace"])
def test_a_kind_that_is_not_served(kubectl: Kubectl, command: str, version: str, kind: str) -> None:
    body = f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: j}}\n"
    refused = kubectl(command, "-f", "-", stdin=body, code=1)
    assert refused.err == (
        'error: resource mapping not found for name: "j" namespace: "" from "STDIN": '
        f'no matches for kind "{kind}" in version "{version}"\nensure CRDs are installed first\n'
    )


def test_lists(kubectl: Kubectl) -> None:
    created = kubectl("create", "-f", "-", stdin=LIST)
    assert created.out == "configmap/first created\nsecret/second created\n"
    unknown = LIST.replace("metadata: {name: first}", "metadata: {name: third}\n  daata: {}")
    refused = kubectl("create", "-f", "-", stdin=unknown, code=1)
    assert 'unknown field "daata" in io.k8s.api.core.v1.ConfigMap' in refused.err
    everything = kubectl("get", "configmaps,secrets", "-o", "yaml").out
    applied = kubectl("apply", "-f", "-", stdin=everything)
    assert applied.out == "configmap/first configured\nsecret/second configured\n"
    again = kubectl("apply", "--validate=true", "-f", "-", stdin=LIST)
    assert again.err == ""


def test_patches(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=DEPLOYMENT)
    side = '{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"busybox:1"}]}}}}'
    kubectl("patch", "deploy", "web", "-p", side)
    names = "jsonpath={.spec.template.spec.containers[*].name}"
    assert set(kubectl("get", "deploy", "web", "-o", names).out.split()) == {"main", "side"}
    kubectl("patch", "deploy", "web", "--type=merge", "-p", side)
    assert kubectl("get", "deploy", "web", "-o", names).out == "side"
    operation = '[{"op":"replace","path":"/spec/replicas","value":4}]'
    kubectl("patch", "deploy", "web", "--type=json", "-p", operation)
    assert kubectl("get", "deploy", "web", "-o", "jsonpath={.spec.replicas}").out == "4"
    failed = '[{"op":"test","path":"/spec/replicas","value":1}]'
    kubectl("patch", "deploy", "web", "--type=json", "-p", failed, code=1)
    status = '{"status":{"replicas":4,"readyReplicas":4}}'
    kubectl("patch", "deploy", "web", "--subresource=status", "--type=merge", "-p", status)
    assert table(kubectl("get", "deploy", "web").out)[1][1] == "4/4"


def test_labels_annotations_and_selectors(kubectl: Kubectl) -> None:
    for name in ("one", "two"):
        kubectl("create", "configmap", name)
    assert kubectl("label", "cm", "one", "tier=front").out == "configmap/one labeled\n"
    kubectl("label", "cm", "one", "tier=back", code=1)
    kubectl("label", "cm", "one", "tier=back", "--overwrite")
    kubectl("annotate", "cm", "--all", "note=hello")
    assert kubectl("get", "cm", "-l", "tier=back", "-o", "name").out == "configmap/one\n"
    assert kubectl("get", "cm", "-l", "!tier", "-o", "name").out == "configmap/two\n"
    by_field = kubectl("get", "cm", "--field-selector", "metadata.name=two", "-o", "name")
    assert by_field.out == "configmap/two\n"
    assert "tier=back" in kubectl("get", "cm", "one", "--show-labels").out
    assert table(kubectl("get", "cm", "-L", "tier").out)[0][-1] == "TIER"
    unsupported = kubectl("get", "cm", "--field-selector", "data.x=y", code=1)
    assert '"data.x" is not a known field selector' in unsupported.err
    kubectl("label", "cm", "one", "tier-")
    assert "tier" not in kubectl("get", "cm", "one", "-o", "yaml").out
    ordered = kubectl("get", "cm", "--sort-by=.metadata.name", "-o", "name").out
    assert ordered.split() == ["configmap/one", "configmap/two"]
    paged = kubectl("get", "cm", "--chunk-size=1", "-o", "name").out
    assert paged.split() == ["configmap/one", "configmap/two"]
    kubectl("delete", "cm", "-l", "!tier")
    assert "No resources" in kubectl("get", "cm").err


def test_edit_replace_and_set(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=DEPLOYMENT)
    editor = kubectl.file("editor", "#!/bin/sh\nsed -i 's/replicas: 1/replicas: 7/' \"$1\"\n")
    Path(editor).chmod(0o755)
    assert kubectl("edit", "deploy", "web", EDITOR=editor).out == "deployment.apps/web edited\n"
    assert kubectl("get", "deploy", "web", "-o", "jsonpath={.spec.replicas}").out == "7"
    replaced = kubectl("replace", "-f", "-", stdin=DEPLOYMENT.replace("replicas: 1", "replicas: 2"))
    assert replaced.out == "deployment.apps/web replaced\n"
    kubectl("set", "image", "deploy/web", "main=busybox:9")
    kubectl("set", "env", "deploy/web", "A=b")
    container = json.loads(kubectl("get", "deploy", "web", "-o", "json").out)["spec"]["template"][
        "spec"
    ]["containers"][0]
    assert container["image"] == "busybox:9"
    assert container["env"] == [{"name": "A", "value": "b"}]
    forced = kubectl("replace", "--force", "-f", "-", stdin=DEPLOYMENT)
    assert "replaced" in forced.out


def test_scale(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=DEPLOYMENT)
    assert kubectl("scale", "deploy/web", "--replicas=3").out == "deployment.apps/web scaled\n"
    kubectl("scale", "deploy/web", "--replicas=5", "--current-replicas=4", code=1)
    kubectl("scale", "deploy/web", "--replicas=5", "--current-replicas=3")
    assert kubectl("get", "deploy", "web", "-o", "jsonpath={.spec.replicas}").out == "5"
    scale = json.loads(kubectl("get", "deploy", "web", "--subresource=scale", "-o", "json").out)
    assert scale["spec"] == {"replicas": 5}


def test_custom_resources(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=DEFINITION)
    kubectl("wait", "--for=condition=Established", "crd/trains.example.com", "--timeout=10s")
    kubectl("create", "-f", "-", stdin=TRAIN)
    head, row = table(kubectl("get", "tr").out)
    assert head == ["NAME", "CARS", "AGE"]
    assert row[:2] == ["night", "3"]
    assert "train.example.com/night" in kubectl("get", "all").out
    assert kubectl("apply", "-f", "-", stdin=TRAIN, code=0).err.startswith("Warning: resource")
    kubectl("apply", "-f", "-", stdin=TRAIN.replace("3", "4"))
    kubectl("scale", "train/night", "--replicas=6")
    assert table(kubectl("get", "trains").out)[1][1] == "6"
    refused = kubectl(
        "patch", "train", "night", "--type=merge", "-p", '{"spec":{"cars":0}}', code=1
    )
    assert 'The Train "night" is invalid: spec.cars: Invalid value: 0' in refused.err
    unknown = kubectl("create", "-f", "-", stdin=TRAIN.replace("cars", "wagons"), code=1)
    assert 'unknown field "spec.wagons"' in unknown.err
    description = kubectl("describe", "train", "night").out
    assert re.search(r"Spec:\n\s+Cars:\s+6", description)
    explained = kubectl("explain", "train.spec.cars").out
    assert "How long it is." in explained
    assert "trains" in kubectl("api-resources", "--api-group=example.com").out
    kubectl("delete", "crd", "trains.example.com")
    kubectl("get", "trains", code=1)


def test_pods_logs_and_commands(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=POD)
    assert kubectl("logs", "worker").out == "first line\nsecond line\n"
    assert kubectl("logs", "worker", "--tail=1").out == "second line\n"
    assert kubectl("logs", "-f", "pod/worker").out == "first line\nsecond line\n"
    assert kubectl("logs", "-l", "app=worker", "--prefix").out.startswith("[pod/worker/main] ")
    previous = kubectl("logs", "worker", "-p", code=1)
    assert 'previous terminated container "main" in pod "worker" not found' in previous.err
    assert kubectl("exec", "worker", "--", "hostname").out == "worker\n"
    assert kubectl("exec", "-i", "worker", "--", "cat", stdin="hello\n").out == "hello\n"
    failed = kubectl("exec", "worker", "--", "false", code=3)
    assert "it went wrong" in failed.err
    assert "command terminated with exit code 3" in failed.err
    missing = kubectl("exec", "worker", "--", "nothing", code=1)
    assert "executable file not found" in missing.err
    assert "container nothing is not valid for pod worker" in (
        kubectl("logs", "worker", "-c", "nothing", code=1).err
    )


def test_describe(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=POD)
    kubectl("create", "-f", "-", stdin=DEPLOYMENT)
    uid = kubectl("get", "pod", "worker", "-o", "jsonpath={.metadata.uid}").out
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {
            "kind": "Pod",
            "name": "worker",
            "namespace": "default",
            "uid": uid,
            "apiVersion": "v1",
        },
        "reason": "Pulled",
        "message": "the image is there",
        "type": "Normal",
        "source": {"component": "node"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2126-01-01T00:00:00Z",
        "count": 1,
    }
    kubectl("create", "-f", "-", stdin=json.dumps(event))
    description = kubectl("describe", "pod", "worker").out
    assert "Node:             node-1" in description
    assert "the image is there" in description
    assert "the image is there" in kubectl("get", "events").out
    assert "the image is there" in kubectl("events", "--for", "pod/worker").out
    assert "RollingUpdateStrategy:  25% max unavailable" in kubectl("describe", "deploy", "web").out
    for kind in ("namespace/default", "pods", "deployments"):
        kubectl("describe", kind)


def test_wait_and_watch(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=POD)
    watching = kubectl.start("get", "pods", "-w", "--no-headers")
    assert watching.stdout is not None
    assert watching.stdout.readline().startswith("worker")
    waiting = kubectl.start("wait", "pod/worker", "--for=condition=Ready", "--timeout=20s")
    status = '{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}'
    kubectl("patch", "pod", "worker", "--subresource=status", "--type=merge", "-p", status)
    out, _ = waiting.communicate(timeout=30)
    assert (waiting.returncode, out) == (0, "pod/worker condition met\n")
    assert "Running" in watching.stdout.readline()
    watching.kill()
    watching.communicate()
    late = kubectl("wait", "pod/worker", "--for=condition=Done", "--timeout=1s", code=1)
    assert "timed out waiting for the condition" in late.err
    going = kubectl.start("wait", "pod/worker", "--for=delete", "--timeout=20s")
    kubectl("delete", "pod", "worker", "--force", "--grace-period=0")
    going.communicate(timeout=30)
    assert going.returncode == 0


def test_rollout(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=DEPLOYMENT)
    status = (
        '{"status":{"observedGeneration":1,"replicas":1,"updatedReplicas":1,'
        '"readyReplicas":1,"availableReplicas":1}}'
    )
    kubectl("patch", "deploy", "web", "--subresource=status", "--type=merge", "-p", status)
    done = kubectl("rollout", "status", "deploy/web", "--timeout=10s").out
    assert done == 'deployment "web" successfully rolled out\n'
    kubectl("rollout", "restart", "deploy/web")
    kubectl("rollout", "pause", "deploy/web")
    kubectl("rollout", "resume", "deploy/web")


def test_deletion(kubectl: Kubectl) -> None:
    for cascade in ("background", "foreground", "orphan"):
        kubectl("create", "-f", "-", stdin=DEPLOYMENT)
        kubectl("delete", "deploy", "web", f"--cascade={cascade}", "--wait=false")
        kubectl("patch", "deploy", "web", "-p", '{"metadata":{"finalizers":null}}', code=None)
        assert "not found" in kubectl("get", "deploy", "web", code=1).err
    kubectl("create", "-f", "-", stdin=POD)
    kubectl("delete", "pod", "worker", "--now", "--wait=false")
    assert "Terminating" in kubectl("get", "pods").out
    kubectl("delete", "pod", "worker", "--force", "--grace-period=0")
    kubectl("create", "namespace", "team")
    kubectl("delete", "namespace", "team", "--wait=false")
    assert table(kubectl("get", "ns", "team").out)[1][1] == "Terminating"
    assert "forbidden" in kubectl("delete", "ns", "default", code=1).err
    kubectl("create", "-f", "-", stdin=CONFIG_MAP)
    assert "deleted" in kubectl("delete", "-f", "-", stdin=CONFIG_MAP).out
    kubectl("delete", "-f", "-", "--ignore-not-found", stdin=CONFIG_MAP)
    assert "NotFound" in kubectl("delete", "-f", "-", stdin=CONFIG_MAP, code=1).err


def test_nodes(kubectl: Kubectl) -> None:
    ready = {"type": "Ready", "status": "True"}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "node-1"},
        "status": {"conditions": [ready], "nodeInfo": {"kubeletVersion": "v1.36.3"}},
    }
    kubectl("create", "-f", "-", stdin=json.dumps(node))
    assert table(kubectl("get", "nodes").out)[1][:2] == ["node-1", "Ready"]
    kubectl("cordon", "node-1")
    assert "SchedulingDisabled" in kubectl("get", "nodes").out
    kubectl("taint", "nodes", "node-1", "a=b:NoSchedule")
    kubectl("create", "-f", "-", stdin=POD)
    kubectl("drain", "node-1", "--force", "--grace-period=0", "--timeout=20s", "--disable-eviction")
    assert kubectl("get", "pods").err == "No resources found in default namespace.\n"
    kubectl("uncordon", "node-1")
    kubectl("describe", "node", "node-1")


def test_top(kubectl: Kubectl, served: Served) -> None:
    kubectl("create", "-f", "-", stdin=POD)
    uid = kubectl("get", "pod", "worker", "-o", "jsonpath={.metadata.uid}").out
    resources = {"cpu": "4", "memory": "1Gi"}
    status = {"capacity": resources, "allocatable": resources}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}, "status": status}
    kubectl("create", "-f", "-", stdin=json.dumps(node))
    used = PodUsage(15.0, {"main": ContainerUsage(0.25, 64 << 20)})
    served.node.used = Usage(
        1_800_000_000.0, 15.0, {uid: used}, {"node-1": NodeUsage(15.0, 1.0, 256 << 20)}
    )
    assert table(kubectl("top", "nodes").out)[1] == ["node-1", "1000m", "25%", "256Mi", "25%"]
    assert table(kubectl("top", "pods").out)[1] == ["worker", "250m", "64Mi"]
    containers = kubectl("top", "pod", "worker", "--containers").out
    assert table(containers)[1] == ["worker", "main", "250m", "64Mi"]
    assert table(kubectl("top", "pods", "-l", "app=worker", "--sum").out)[-1] == ["250m", "64Mi"]
    shown = table(kubectl("get", "podmetrics").out)
    assert shown == [["NAME", "CPU", "MEMORY", "WINDOW"], ["worker", "250m", "64Mi", "15s"]]
    served.node.used = Usage(1_800_000_000.0, 15.0)
    missing = kubectl("top", "pod", "worker", code=1)
    assert 'podmetrics.metrics.k8s.io "default/worker" not found' in missing.err


def test_discovery_commands(kubectl: Kubectl) -> None:
    version = json.loads(kubectl("version", "-o", "json").out)
    assert version["serverVersion"]["gitVersion"].endswith("+traincrew")
    resources = kubectl("api-resources").out
    for name in ("pods", "statefulsets", "jobs", "customresourcedefinitions", "ingresses"):
        assert name in resources
    assert "batch/v1" in kubectl("api-versions").out.split()
    assert "restartPolicy" in kubectl("explain", "pod.spec").out
    recursive = kubectl("explain", "statefulset", "--recursive").out
    assert "volumeClaimTemplates" in recursive
    assert kubectl("auth", "can-i", "create", "pods").out == "yes\n"
    assert "traincrew:admin" in kubectl("auth", "whoami").out
    kubectl("cluster-info")
    raw = json.loads(kubectl("get", "--raw", "/api/v1/namespaces/default").out)
    assert raw["metadata"]["name"] == "default"


def test_kustomize(kubectl: Kubectl) -> None:
    kubectl.file("settings.yaml", CONFIG_MAP)
    kubectl.file("kustomization.yaml", "resources: [settings.yaml]\nnamePrefix: my-\n")
    assert kubectl("apply", "-k", str(kubectl.directory)).out == "configmap/my-settings created\n"


def test_cp_reports_that_it_needs_tar(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=POD)
    path = kubectl.file("data", "text")
    refused = kubectl("cp", path, "worker:/tmp/data", code=1)
    assert "executable file not found" in refused.err


def test_permissions(kubectl: Kubectl) -> None:
    kubectl("create", "serviceaccount", "robot")
    kubectl("create", "role", "reader", "--verb=get,list", "--resource=pods,pods/log")
    kubectl("create", "rolebinding", "reader", "--role=reader", "--serviceaccount=default:robot")
    robot = "--as=system:serviceaccount:default:robot"
    for question, answer in (
        (("list", "pods"), "yes"),
        (("get", "pods/anyone", "--subresource=log"), "yes"),
        (("delete", "pods"), "no"),
        (("list", "pods", "--namespace=kube-system"), "no"),
        (("get", "/version"), "yes"),
        (("get", "/metrics"), "no"),
    ):
        result = kubectl("auth", "can-i", *question, robot, code=None)
        assert result.out.split()[:1] == [answer], (question, result)
        assert result.code == (answer == "no")
    assert kubectl("auth", "can-i", "*", "*", "--all-namespaces").out == "yes\n"
    listed = kubectl("auth", "can-i", "--list", robot).out
    assert re.search(r"^pods/log +\[\] +\[\] +\[get list\]$", listed, re.MULTILINE), listed
    assert kubectl("get", "pods", robot).code == 0
    refused = kubectl("get", "secrets", robot, code=1)
    assert refused.err == (
        "Error from server (Forbidden): secrets is forbidden: User "
        '"system:serviceaccount:default:robot" cannot list resource "secrets" in API group "" in '
        'the namespace "default"\n'
    )
