"""Kubeflow's SDK trains on a real cluster, where ours is installed in the place of Trainer.

Definitions and runtime are those of Trainer and JobSet; nothing of theirs runs.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from suites.operators.modules import JOBSET, TRAINER, sources
from suites.sdk import kubeflow_sdk

from hack import images

from .administrator import Administrator
from .elastic_support import TORCH
from .install_support import ACCOUNT, install_chart, refusal, uninstall
from .install_support import User as Requests

if TYPE_CHECKING:
    from pathlib import Path

    from hack.cluster import RealCluster

RUNTIME_IMAGE = "docker.io/pytorch/pytorch:2.10.0-cuda12.8-cudnn9-runtime"


@pytest.mark.timeout(900)
def test_it_trains_on_three_nodes(cluster: RealCluster, tmp_path: Path) -> None:
    cluster.load_images([images.build("torch")])
    cluster.name_image(TORCH, [RUNTIME_IMAGE])
    trainer = sources(TRAINER, "trainer") / "manifests/base"
    jobset = sources(JOBSET) / "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"
    user = Administrator(cluster, tmp_path)
    user.timeout = 600.0
    kubeflow_sdk.install(user)
    with contextlib.ExitStack() as stack:
        uninstall(cluster)
        stack.callback(uninstall, cluster)
        stack.callback(user.remove_published)
        user.apply_published(f"--kustomize={trainer / 'crds'}", f"--filename={jobset}")
        user.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=60s")
        user.apply_published(f"--filename={trainer / 'runtimes/torch_distributed.yaml'}")
        stack.enter_context(install_chart(cluster, "TrainJob", "JobSet"))
        runtimes = ("clustertrainingruntimes", "--all", "--timeout=60s")
        stack.callback(user.kubectl, "delete", *runtimes)  # the operator holds those in use
        requests = Requests(cluster)

        kubeflow_sdk.trains(user)

        entries = requests.requests(ACCOUNT)
        assert {entry["objectRef"]["resource"] for entry in entries} >= {"trainjobs", "jobsets"}
        assert [text for entry in entries if (text := refusal(entry))] == []
        assert "Traceback" not in user.log()
