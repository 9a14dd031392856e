"""The ChainerJobs of the scenarios: light pods that run only a shell."""

from __future__ import annotations

from typing import Any

Document = dict[str, Any]

IMAGE = "docker.io/traincrew/busybox:0.1.0"
"""A shell and the usual tools: an image on the real cluster, this machine's tools otherwise."""

# The program of a pod that ends on request: `ScenarioContext.end` writes the exit code.
GATE = """\
trap 'exit 143' TERM
until [ -s /tmp/exit ]; do sleep 0.2 & wait $!; done
exit $(cat /tmp/exit)
"""
EVERY_THREE_SECONDS = "for step in 1 2 3 4 5; do echo step $step; sleep 3; done"
WAIT = "trap 'exit 0' TERM; while true; do sleep 3600 & wait $!; done"
WAIT_AND_LINGER = "trap 'sleep 2; exit 0' TERM; while true; do sleep 3600 & wait $!; done"
"""Whoever watches the pod sees that it is being deleted before it is gone."""
# Like mpiexec, without Open MPI: a process on every host of the hostfile, by the rsh agent.
LAUNCH = """\
while read -r host slots; do
  "$OMPI_MCA_plm_rsh_agent" "$host" "echo rank on \\$(hostname), $slots" </dev/null
done < "$OMPI_MCA_orte_default_hostfile"
"""

OPEN_MPI_WARNING = r"\[.*\] plm:rsh: Warning: setpgid\(.*\) failed in parent with errno=.*"
"""Printed when the agent, a child of mpiexec, is faster than mpiexec; it can be ignored."""


def container(script: str, **fields: Any) -> Document:
    """Return a container that runs a shell script."""
    return {"name": "chainer", "image": IMAGE, "command": ["sh", "-c", script], **fields}


def template(script: str, **fields: Any) -> Document:
    """Return a pod template with one container."""
    return {"spec": {"containers": [container(script, **fields)]}}


def job(name: str, script: str = GATE, *, workers: int = 0, **spec: Any) -> Document:
    """Return a ChainerJob.

    Args:
        name: Its name.
        script: The master's program.
        workers: Pods of its only worker set, `ws`; without any there is no worker set.
        spec: Further fields; `master` is added to the master.
    """
    master = {"backoffLimit": 0, "template": template(script), **spec.pop("master", {})}
    body: Document = {"master": master, **spec}
    if workers:
        body["workerSets"] = {"ws": {"replicas": workers, "template": template(WAIT)}}
    return {
        "apiVersion": "kubeflow.org/v1alpha1",
        "kind": "ChainerJob",
        "metadata": {"name": name},
        "spec": body,
    }
