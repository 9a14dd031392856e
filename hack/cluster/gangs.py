"""Schedulers that place gangs of pods: what a cluster needs to have one.

- ``kubernetes``: PodGroups of ``scheduling.k8s.io`` and the plugin of kube-scheduler, behind
  feature gates.
- ``coscheduling``: scheduler and controller of kubernetes-sigs/scheduler-plugins, with the
  definitions of their release, as its chart ``as-a-second-scheduler`` installs them.
- ``kai``: scheduler, binder and controllers of KAI, with the definitions and the default queues of
  its chart, and without its admission webhooks. Its podgrouper is left out: before release 0.15 it
  puts pods that have an owner into groups of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hack.cluster import binaries

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

KUBERNETES = "kubernetes"
COSCHEDULING = "coscheduling"
KAI = "kai"
ENGINES = (KUBERNETES, COSCHEDULING, KAI)

SCHEDULER = "scheduler-plugins-scheduler"
"""Also the ``schedulerName`` of pods that it places."""
CONTROLLER = "scheduler-plugins-controller"
KAI_SCHEDULER = "kai-scheduler"
"""Also the ``schedulerName`` of pods that it places."""
PROGRAMS: dict[str, tuple[str, ...]] = {
    "": (),
    KUBERNETES: (),
    COSCHEDULING: (SCHEDULER, CONTROLLER),
    KAI: (KAI_SCHEDULER, "kai-binder", "kai-podgroupcontroller", "kai-queuecontroller"),
}
"""By engine: what runs beside the components of Kubernetes."""
PERMIT_SECONDS = 10
"""For how long pods keep room for others of their group; that of the chart."""
AGAIN_SECONDS = 30
"""After so long, pods that found no room are looked at again, whatever has happened; the default is
300. The plugin does not ask to be told when room becomes free, so a group may wait that long."""
_DEFINITIONS: dict[str, tuple[str, ...]] = {
    COSCHEDULING: (
        "manifests/coscheduling/crd.yaml",
        # Its controller does not start without this one.
        "manifests/capacityscheduling/crd.yaml",
    ),
    KAI: tuple(
        f"deployments/kai-scheduler/crds/{name}.yaml"
        for name in (
            "kai.scheduler_topologies",
            "scheduling.run.ai_bindrequests",
            "scheduling.run.ai_podgroups",
            "scheduling.run.ai_queues",
        )
    ),
}

_GATED = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
_GATES = {
    "1.36": ("v1alpha2", "GenericWorkload=true,GangScheduling=true"),
    "1.37": ("v1beta1", "GenericWorkload=true"),
}
"""By release: the version of the API, and the feature gates."""


def arguments(engine: str, release: str) -> dict[str, list[str]]:
    """Return the arguments of Kubernetes' components for a scheduler of gangs, by component."""
    if engine != KUBERNETES:
        return {}
    version, gates = _GATES[release]
    found = {name: [f"--feature-gates={gates}"] for name in _GATED}
    found["kube-apiserver"].append(f"--runtime-config=scheduling.k8s.io/{version}=true")
    return found


def definitions(engine: str) -> list[Path]:
    """Return the files of the resources that the programs of an engine need."""
    directory = binaries.module_directory(PROGRAMS[engine][0])
    return [directory / name for name in _DEFINITIONS[engine]]


def objects(engine: str) -> list[dict[str, Any]]:
    """Return the objects that an engine is installed with, besides definitions."""
    if engine != KAI:
        return []
    unlimited = {"quota": 0, "limit": -1, "overQuotaWeight": 1}
    resources = dict.fromkeys(("cpu", "gpu", "memory"), unlimited)
    parent, child = "default-parent-queue", "default-queue"
    return [
        {
            "apiVersion": "scheduling.run.ai/v2",
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": {**spec, "resources": resources},
        }
        for name, spec in ((parent, {}), (child, {"parentQueue": parent}))
    ]


def command(name: str, directory: Path) -> list[str]:
    """Return the words after the program of a component that runs beside those of Kubernetes.

    Args:
        name: The program.
        directory: Where its kubeconfig and its configuration are.
    """
    if name == SCHEDULER:
        return [
            f"--config={directory / f'{SCHEDULER}.json'}",
            "--secure-port=0",  # the usual one is that of kube-scheduler
            f"--pod-max-in-unschedulable-pods-duration={AGAIN_SECONDS}s",
        ]
    if name == CONTROLLER:
        return [
            f"--kubeconfig={directory / f'{CONTROLLER}.kubeconfig'}",
            # Its own defaults, 5 requests per second, are not those of a test.
            "--qps=100",
            "--burst=200",
        ]
    return list(_KAI_ARGUMENTS[name])


_KAI_ARGUMENTS = {
    # Each would listen on the ports 8080 and 8081.
    KAI_SCHEDULER: ("--listen-address=127.0.0.1:10401", "--plugin-server-port=10402"),
    "kai-binder": ("--metrics-bind-address=0", "--health-probe-bind-address=0"),
    "kai-podgroupcontroller": ("--health-probe-bind-address=0", "--enable-podgroup-webhook=false"),
    "kai-queuecontroller": ("--metrics-listen-address=0", "--enable-webhook=false"),
}


def environment(name: str, directory: Path) -> dict[str, str]:
    """Return what a component needs in its environment."""
    if name not in _KAI_ARGUMENTS:
        return {}
    # The scheduler has no argument for that.
    return {"KUBECONFIG": str(directory / f"{name}.kubeconfig")}


def configuration(kubeconfig: Path) -> Mapping[str, Any]:
    """Return the configuration of the scheduler."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "profiles": [
            {
                "schedulerName": SCHEDULER,
                "plugins": {
                    "multiPoint": {
                        "enabled": [{"name": "Coscheduling"}],
                        "disabled": [{"name": "PrioritySort"}],
                    }
                },
                "pluginConfig": [
                    {
                        "name": "Coscheduling",
                        "args": {"permitWaitingTimeSeconds": PERMIT_SECONDS},
                    }
                ],
            }
        ],
    }
