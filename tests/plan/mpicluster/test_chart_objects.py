"""The children beside the objects of the chart kube-openmpi 0.7.0: what differs is in the page."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plan.mpicluster.manifests import one_shot
from plan.mpicluster.test_children import documents
from traincrew.operator.keypairs import with_key_pair

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[3] / "docs" / "design" / "mpicluster.md"
Document = dict[str, Any]

COMMON = {
    "label app=kube-openmpi",
    "label chart=kube-openmpi-0.7.0",
    "label release=N",
    "label heritage=Tiller",
}
BOTH_PODS = {
    *COMMON,
    "volume kube-openmpi-ssh-key (secret, mode 0400)",
    "volume kube-openmpi-utils (configMap, mode 0555)",
    "volume kube-openmpi-sync-code (emptyDir)",
    "volume kube-openmpi-sync-code-secret (secret, mode 0400)",
    "init container code-fetch",
    "code-fetch: env GIT_SYNC_REPO",
    "code-fetch: env GIT_SYNC_BRANCH",
    "code-fetch: env GIT_SYNC_DEST",
    "code-fetch: env GIT_SYNC_ONE_TIME",
    "code-fetch: env GIT_SYNC_WAIT",
    "code-fetch: env GIT_SYNC_SSH",
    "code-fetch: env GIT_KNOWN_HOSTS",
    "code-fetch: mount /git",
    "code-fetch: mount /etc/git-secret",
    "code-fetch: runAsUser 0",
}


def main(container: str) -> set[str]:
    """What the chart's main container of both roles has."""
    return {
        f"container {container}",
        f"{container}: port 2022",
        f"{container}: mount /ssh-key/openmpi",
        f"{container}: mount /kube-openmpi/utils",
        f"{container}: mount /code",
    }


CHART: dict[str, set[str]] = {
    "Secret N-ssh-key": {*COMMON, "key id_rsa", "key id_rsa.pub", "key authorized_keys"},
    "ConfigMap N-assets": {*COMMON, "key gen_hostfile.sh", "key hostfile_update_every"},
    "Service N": {*COMMON, "v1", "headless", "selector app, release", "port 1234 to 1234"},
    "Service N-ssh-gateway": {
        *COMMON,
        "v1",
        "NodePort",
        "selector app, release, role",
        "port 22 to 22",
    },
    "PodDisruptionBudget N-worker-pdb": {
        "policy/v1beta1",
        "minAvailable 2",
        "selector app, chart, heritage, release, role",
    },
    "NetworkPolicy N-allow-internal": {*COMMON, "selector app, release"},
    "NetworkPolicy N-allow-from-external": {*COMMON, "selector allow_from_external"},
    "StatefulSet N-worker": {
        *BOTH_PODS,
        *main("mpi-worker"),
        "label role=worker",
        "selector app, chart, heritage, release, role",
        "podManagementPolicy Parallel",
        "replicas 2",
        "serviceName N",
    },
    "Pod N-master": {
        *BOTH_PODS,
        *main("mpi-master"),
        "label role=master",
        "label allow_from_external=true",
        "restartPolicy OnFailure",
        "hostname N-master",
        "subdomain N",
        "volume kube-openmpi-guillotine (emptyDir)",
        "volume kube-openmpi-hostfile-dir (emptyDir)",
        "volume kube-openmpi-hostfile-updater-params (configMap)",
        "init container hostfile-initializer",
        "container worker-auto-downing",
        "container hostfile-updater",
        "mpi-master: env HOSTFILE",
        "mpi-master: env GUILLOTINE",
        "mpi-master: env ONE_SHOT",
        "mpi-master: command /init.sh",
        "mpi-master: mount /kube-openmpi/guillotine",
        "mpi-master: mount /kube-openmpi/generated",
    },
}
"""The chart's objects for a release N with a command, two workers, all options, and a
private repository; its helper containers by name only."""


def ours() -> dict[str, set[str]]:
    """Return the same of the children."""
    code = {
        "name": "code",
        "repository": "git@git.example.com:x/y.git",
        "branch": "main",
        "timeoutSeconds": 60,
        "mountPath": "/code",
        "secretName": "git",
    }
    job = one_shot(
        "n", codeSync=[code], ssh={"gateway": {"enabled": True}}, networkPolicy={"enabled": True}
    )
    job["spec"]["workers"]["podDisruptionBudget"] = {"enabled": True}
    job["spec"]["workers"]["podManagementPolicy"] = "Parallel"
    return {
        f"{each['kind']} {named(each['metadata']['name'])}": set(of_object(each))
        for each in documents(job)
    }


def named(text: str) -> str:
    """Return a name with N for that of the cluster."""
    return re.sub("^n(?=-|$)", "N", text)


def of_object(document: Document) -> Iterator[str]:
    if document["kind"] == "Secret":
        document = with_key_pair(document)
    for key, value in document["metadata"]["labels"].items():
        yield f"label {key}={named(value)}"
    for key, value in document.get("data", {}).items():
        yield f"key {key}"
        assert document["kind"] != "Secret" or base64.b64decode(value)
    spec = document.get("spec", {})
    match document["kind"]:
        case "Service":
            yield document["apiVersion"]
            yield from ("headless" for _ in range(spec.get("clusterIP") == "None"))
            yield from (spec[key] for key in ("type",) if key in spec)
            yield from (f"port {each['port']} to {each['targetPort']}" for each in spec["ports"])
            yield from ("publishNotReadyAddresses" for _ in range("publishNotReady" in str(spec)))
            yield selector(spec["selector"])
        case "PodDisruptionBudget":
            yield document["apiVersion"]
            yield f"minAvailable {spec['minAvailable']}"
            yield selector(spec["selector"]["matchLabels"])
        case "NetworkPolicy":
            yield selector(spec["podSelector"]["matchLabels"])
        case "StatefulSet":
            yield selector(spec["selector"]["matchLabels"])
            for key in ("podManagementPolicy", "replicas", "serviceName"):
                yield f"{key} {named(str(spec[key]))}"
            yield from of_pod(spec["template"]["spec"], "Always")
        case "Pod":
            yield f"restartPolicy {spec['restartPolicy']}"
            yield from of_pod(spec, spec["restartPolicy"])


def selector(labels: dict[str, str]) -> str:
    return f"selector {', '.join(sorted(labels))}"


def of_pod(spec: Document, policy: str) -> Iterator[str]:
    assert spec.pop("restartPolicy") == policy
    for volume in spec.pop("volumes"):
        (kind,) = volume.keys() - {"name"}
        mode = volume[kind].get("defaultMode")
        memory = ", in memory" if volume[kind].get("medium") == "Memory" else ""
        text = f", mode {mode:04o}" if mode else memory
        yield f"volume {volume['name']} ({kind}{text})"
    for container in spec.pop("initContainers"):
        yield f"init container {container['name']}"
        yield from of_container(container, {"command", "resources"})
    for container in spec.pop("containers"):
        yield f"container {container['name']}"
        yield from of_container(container, set())
    for key, value in spec.items():
        yield f"{key} {named(str(value).lower() if isinstance(value, bool) else str(value))}"


def of_container(given: Document, ignored: set[str]) -> Iterator[str]:
    """Yield what a container has; an init container's own command is not compared."""
    for key, value in given.items():
        name = given["name"]
        match key:
            case "volumeMounts":
                yield from (f"{name}: mount {each['mountPath'].rstrip('/')}" for each in value)
            case "env":
                yield from (f"{name}: env {each['name']}" for each in value)
            case "ports":
                yield from (f"{name}: port {each['containerPort']}" for each in value)
            case "command" if key not in ignored:
                yield f"{name}: command {value[0]}"
            case "readinessProbe":
                yield f"{name}: readinessProbe"
            case "name" | "image":
                pass
            case _ if key not in ignored:
                yield f"{name}: {key} {value}"


def rows() -> list[list[str]]:
    """Return the rows of the page's table."""
    _, _, text = PAGE.read_text().partition("## Different from the chart's objects")
    table = [line for line in text.partition("\n## ")[0].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]


def listed(objects: str, cell: str) -> set[tuple[str, str]]:
    """Return pairs of an object and something that it has.

    ``CONTAINER`` is the main container of its role.
    """
    every = re.findall("`(.+?)`", objects) or list(CHART)
    return {
        (each, text.replace("CONTAINER", "mpi-master" if "master" in each else "mpi-worker"))
        for each in every
        for text in re.findall("`(.+?)`", cell)
    }


def test_the_page_lists_every_difference_and_no_other() -> None:
    found = ours()
    assert found.keys() == CHART.keys()
    only_chart = {(name, text) for name in CHART for text in CHART[name] - found[name]}
    only_ours = {(name, text) for name in CHART for text in found[name] - CHART[name]}
    said_chart: set[tuple[str, str]] = set()
    said_ours: set[tuple[str, str]] = set()
    for objects, theirs, mine, why in rows():
        said_chart |= listed(objects, theirs)
        said_ours |= listed(objects, mine)
        assert why

    assert sorted(only_chart ^ said_chart) == []
    assert sorted(only_ours ^ said_ours) == []
