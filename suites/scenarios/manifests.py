"""The ChainerJobs of the scenarios: light pods with nothing but a shell in them."""

from __future__ import annotations

from typing import Any

Document = dict[str, Any]

IMAGE = "docker.io/traincrew/busybox:0.1.0"
"""A shell and the usual small tools: an image on the real cluster, this machine's tools here."""

# The program of a pod that ends when it is told to: `Stage.end` writes the exit code.
GATE = """\
trap 'exit 143' TERM
until [ -s /tmp/exit ]; do sleep 0.2 & wait $!; done
exit $(cat /tmp/exit)
"""
WAIT = "trap 'exit 0' TERM; while true; do sleep 3600 & wait $!; done"
# What mpiexec does, without Open MPI: a process on every host of the hostfile, by the rsh agent.
LAUNCH = """\
while read -r host slots; do
  "$OMPI_MCA_plm_rsh_agent" "$host" "echo rank on \\$(hostname), $slots" </dev/null
done < "$OMPI_MCA_orte_default_hostfile"
"""

OPEN_MPI_WARNING = r"\[.*\] plm:rsh: Warning: setpgid\(.*\) failed in parent with errno=.*"
"""Said when the agent, a child of mpiexec, is faster than mpiexec; it means nothing."""


def container(script: str, **fields: Any) -> Document:
    """The container of a pod, running a shell script."""
    return {"name": "chainer", "image": IMAGE, "command": ["sh", "-c", script], **fields}


def template(script: str, **fields: Any) -> Document:
    """A pod template with one container."""
    return {"spec": {"containers": [container(script, **fields)]}}


def job(name: str, script: str = GATE, *, workers: int = 0, **spec: Any) -> Document:
    """A ChainerJob.

    Args:
        name: Its name.
        script: What the master runs.
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
