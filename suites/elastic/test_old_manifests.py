"""Manifests written for TorchElastic's controller run as they are, with an etcd beside them.

More of those can be put to the test: TRAINCREW_SUITE_ELASTIC_MANIFESTS names a directory.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(1500)
HERE = Path(__file__).parent
MANIFESTS = sorted(
    path
    for directory in (HERE / "manifests", os.environ.get("TRAINCREW_SUITE_ELASTIC_MANIFESTS"))
    if directory
    for path in Path(directory).glob("*.yaml")
    if "kind: ElasticJob" in path.read_text()
)
ETCD = """\
apiVersion: v1
kind: Service
metadata: {name: etcd-service, namespace: elastic-job}
spec:
  ports: [{name: client, port: 2379}]
  selector: {app: etcd}
---
apiVersion: v1
kind: Pod
metadata: {name: etcd, namespace: elastic-job, labels: {app: etcd}}
spec:
  containers:
  - name: etcd
    image: quay.io/coreos/etcd:latest
    command:
    - /usr/local/bin/etcd
    - --enable-v2
    - --log-level=error
    - --data-dir=/var/lib/etcd
    - --listen-client-urls=http://0.0.0.0:2379
    - --advertise-client-urls=http://0.0.0.0:2379
    ports: [{name: client, containerPort: 2379}]
    readinessProbe: {tcpSocket: {port: client}, periodSeconds: 1}
---
"""


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.stem)
def test_it_trains_and_succeeds(manifest: Path, tmp_path: Path) -> None:
    text = manifest.read_text().replace(
        "<your_etcd_endpoint>:<your_etcd_port>", "etcd-service:2379"
    )
    given = tmp_path / "job.yaml"
    given.write_text(ETCD + text)
    run = subprocess.run(
        [sys.executable, "-m", "traincrew.cli", "run", "--gpus=2", "-f", str(given)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=800,
        check=False,
    )

    assert run.returncode == 0, run.stdout
    assert re.search(r"\| 2 process\(es\), from epoch 0 on$", run.stdout, re.MULTILINE)
    found = re.search(r"validation accuracy: (0\.\d+)$", run.stdout, re.MULTILINE)
    assert found is not None
    assert float(found[1]) > 0.85  # three epochs are not many
