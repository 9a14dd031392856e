"""The command that an empty list offers: it creates a job on the very cluster of the page.

Pure. It needs no file, and no image but Python's own.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["first_job"]

_MANIFEST = """\
apiVersion: kubeflow.org/v1alpha1
kind: ChainerJob
metadata:
  name: hello
spec:
  master:
    template:
      spec:
        containers:
        - name: chainer
          image: python:3.11
          command:
          - python
          - -c
          - |
            import time
            for epoch in range(1, 61):
                print(f"epoch {epoch}/60 loss {1 / epoch:.4f}", flush=True)
                time.sleep(1)
"""


def first_job(options: Sequence[str], namespace: str | None) -> str:
    """Return a command for a shell.

    Args:
        options: With which a command finds the cluster; without them, kubectl creates the job,
            because `traincrew run` would start a cluster of its own.
        namespace: The only namespace that the page shows; None for all.
    """
    where = ["-n", namespace] if namespace else []
    words = (
        ["traincrew", "run", *options, *where, "--detach", "-f", "-"]
        if options
        else ["kubectl", "create", *where, "-f", "-"]
    )
    return f"{shlex.join(words)} <<'END'\n{_MANIFEST}END"
