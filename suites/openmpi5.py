"""MPIClusters with Open MPI 5, which starts processes by PRRTE, as images of users may have it.

On a busy machine its mpiexec does not always end when all ranks have ended, however they were
started. Then it is run again, as docs/guides/mpicluster.md says.
"""

from __future__ import annotations

from typing import Any

from suites.openmpi_user import HOSTFILE, Document, one_shot

UNTIL_IT_ENDS = """\
for attempt in 1 2 3; do
  output=$(timeout --kill-after=5 60 "$@" 2>&1)
  code=$?
  if [ "$code" -ne 124 ] && [ "$code" -ne 137 ]; then
    echo "$output"
    exit "$code"
  fi
done
echo "mpiexec does not end: $output"
exit "$code"
"""
"""Script that runs a command again that has not ended after a minute."""


AGAIN = ("sh", "-c", UNTIL_IT_ENDS, "sh")
"""What is put before such a command."""


def one_shot_that_ends(name: str, image: str, *command: str, **policy: Any) -> Document:
    """Return a cluster that runs a command in three pods."""
    run = f"mpiexec --allow-run-as-root --hostfile {HOSTFILE} -n 3 --map-by ppr:1:node"
    script = f"set -- {run} {' '.join(command)}\n{UNTIL_IT_ENDS}"
    return with_image(one_shot(name, script, **policy), image)


def with_image(document: Document, image: str) -> Document:
    """Return a cluster with another image."""
    for role in ("master", "workers"):
        for container in document["spec"][role]["template"]["spec"]["containers"]:
            container["image"] = image
    return document
