"""The operator, started with the arguments and the environment of mxnet-operator's Deployment."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from traincrew.engine.errors import NotFoundError
from traincrew.engine.resources import LEASES, NAMESPACES

if TYPE_CHECKING:
    from harness import Cluster

PROGRAM = Path(sys.executable).with_name("traincrew")
CONFIGURATION = """\
accelerators:
  alpha.kubernetes.io/nvidia-gpu:
    volumes:
      - name: nvidia-libraries
        mountPath: /usr/local/nvidia
        hostPath: /var/lib/nvidia-docker/volumes/nvidia_driver/current
"""


async def test_flags_and_environment_of_mxnet_operator(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(json.dumps(cluster.server.kubeconfig()))
    (tmp_path / "controller_config_file.yaml").write_text(CONFIGURATION)
    operators = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "operators"}}
    await cluster.client.create(NAMESPACES, operators)
    inherited = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
    process = await asyncio.create_subprocess_exec(
        PROGRAM,
        "operator",
        f"--controller_config_file={tmp_path / 'controller_config_file.yaml'}",
        "--gc-interval",
        "10m",
        "--chaos-level",
        "-1",
        "-alsologtostderr",
        "-v=1",
        env={
            **inherited,
            "USE_KUBE_CONFIG": str(tmp_path / "config"),
            "MY_POD_NAMESPACE": "operators",
            "MY_POD_NAME": "mx-job-operator-x1",
        },
        stderr=asyncio.subprocess.PIPE,
    )
    try:

        async def leads() -> bool:
            try:
                lease = await cluster.client.get(LEASES, "chainer-operator", "operators")
            except NotFoundError:
                return False
            holder: str = lease["spec"].get("holderIdentity") or ""
            return holder == f"mx-job-operator-x1-{process.pid}"

        await cluster.until(leads)
    finally:
        process.terminate()
        _, said = await process.communicate()
    log = said.decode()

    assert process.returncode == 0, log
    assert "accelerators are configured" in log
    assert "alpha.kubernetes.io/nvidia-gpu" in log
    assert "a flag has no effect" in log
    assert "--gc-interval=10m" in log
    assert "traincrew orphans" in log
    assert "--chaos-level=-1" in log
