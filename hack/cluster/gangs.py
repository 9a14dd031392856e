"""Schedulers that place gangs of pods: what a cluster needs to have one.

- ``kubernetes``: PodGroups of ``scheduling.k8s.io`` and the plugin of kube-scheduler, behind
  feature gates.
- ``coscheduling``: scheduler and controller of kubernetes-sigs/scheduler-plugins, with the
  definitions of their release, as its chart ``as-a-second-scheduler`` installs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hack.cluster import binaries

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

KUBERNETES = "kubernetes"
COSCHEDULING = "coscheduling"
ENGINES = (KUBERNETES, COSCHEDULING)

SCHEDULER = "scheduler-plugins-scheduler"
"""Also the ``schedulerName`` of pods that it places."""
CONTROLLER = "scheduler-plugins-controller"
PROGRAMS = (SCHEDULER, CONTROLLER)
PERMIT_SECONDS = 10
"""For how long pods keep room for others of their group; that of the chart."""
AGAIN_SECONDS = 30
"""After so long, pods that found no room are looked at again, whatever has happened; the default is
300. The plugin does not ask to be told when room becomes free, so a group may wait that long."""
_DEFINITIONS = (
    "manifests/coscheduling/crd.yaml",
    # Its controller does not start without this one.
    "manifests/capacityscheduling/crd.yaml",
)

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


def definitions() -> list[Path]:
    """Return the files of the resources that scheduler-plugins need."""
    directory = binaries.module_directory(SCHEDULER)
    return [directory / name for name in _DEFINITIONS]


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
