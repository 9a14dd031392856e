"""``transport: exec`` of an MPICluster: mpiexec starts processes in the workers by `kubectl exec`.

Images need no sshd and no ``/init.sh`` for that, so the containers run scripts of ours. The master
has kubectl, and an agent that Open MPI calls instead of ssh. It starts every daemon itself, rather
than let daemons start each other; so no other pod may start anything. Workers have the agent only
because a daemon ends at once, unseen, if that file is not there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.api.kinds.mpicluster.transport import KUBECTL_CONTAINER
from traincrew.api.kinds.mpicluster.types import MASTER_CONTAINER, OWN_PREFIX, WORKER_CONTAINER
from traincrew.plan.shared.templates import openmpi, podtemplate

if TYPE_CHECKING:
    from collections.abc import Mapping

PATHS = openmpi.Paths("/kube-openmpi")
SCRIPTS_VOLUME = f"{OWN_PREFIX}scripts"
KUBECTL_VOLUME = f"{OWN_PREFIX}kubectl"

WAIT = "trap 'exit 0' TERM INT; while :; do sleep 86400 & wait $!; done"
"""Does nothing until it gets SIGTERM. A shell notices a signal only while it waits."""
RUN = """\
trap 'told=1; kill -TERM "$process" 2> /dev/null' TERM INT
"$(command -v bash || command -v sh)" -c "$1" &
process=$!
[ -z "${told:-}" ] || kill -TERM "$process"
wait "$process"
code=$?
while [ -n "${told:-}" ]; do
  told=
  wait "$process"
  ended=$?
  [ "$ended" -eq 127 ] || code=$ended
done
exit "$code"
"""
"""Runs a command by a shell and ends with its exit code, also after SIGTERM.

A signal interrupts ``wait``, which has to be called again for the exit code; 127 means that nothing
is left to wait for.
"""

Document = dict[str, Any]

SCRIPTS_MOUNT: Document = {"name": SCRIPTS_VOLUME, "mountPath": PATHS.assets}
DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
"""Annotation with which kubectl does not mention the other containers of a pod."""


def environment() -> dict[str, str]:
    """Return the variables of the master."""
    return openmpi.agent_environment(PATHS)


def scripts(service: str) -> dict[str, str]:
    """Return the files of the agent; the host names of the pods end in the name of the Service."""
    return openmpi.agent_assets(PATHS, WORKER_CONTAINER, service)


def waiting(container: Document) -> Document:
    """Make a container wait for processes, unless the user has set its command."""
    if container.get("command") or container.get("args"):
        return container
    return {**container, "command": ["/bin/sh", "-c", WAIT]}


def running(container: Document, command: str) -> Document:
    """Make a container run the command of a one-shot cluster."""
    return {**container, "command": ["/bin/sh", "-c", RUN, "sh", command]}


def scripts_volume(assets: str, *files: str) -> Document:
    """Return the volume with files of a ConfigMap."""
    items = [{"key": name, "path": name, "mode": 0o555} for name in files]
    return {"name": SCRIPTS_VOLUME, "configMap": {"name": assets, "items": items}}


def with_agent(template: Document, image: str, assets: str, account: str) -> Document:
    """Add what the master needs to start processes in the workers.

    Args:
        template: The template of the master.
        image: The image with kubectl.
        assets: The ConfigMap with the scripts.
        account: The ServiceAccount, if the user has written none.
    """
    kubectl = {"name": KUBECTL_VOLUME, "emptyDir": {}}
    volumes = [scripts_volume(assets, *openmpi.AGENT_ASSETS), kubectl]
    mounts = [SCRIPTS_MOUNT, {"name": KUBECTL_VOLUME, "mountPath": PATHS.kubectl}]
    main: Document = {}

    def equipped(container: Document) -> Document:
        if container.get("name") != MASTER_CONTAINER:
            return container
        main.update(container)
        container = podtemplate.add_env(container, environment())
        return podtemplate.add_mounts(container, mounts)

    template = podtemplate.map_containers(template, equipped)
    template = podtemplate.with_volumes(template, volumes)
    step = openmpi.kubectl_container(KUBECTL_CONTAINER, image, main, PATHS, mounts)
    template = podtemplate.with_init_containers(template, [step])
    template["spec"].pop("serviceAccount", None)  # the deprecated name of the field
    metadata = template["metadata"]
    annotations = {DEFAULT_CONTAINER: MASTER_CONTAINER, **(metadata.get("annotations") or {})}
    template = {**template, "metadata": {**metadata, "annotations": annotations}}
    return podtemplate.with_spec(template, serviceAccountName=account)


def with_agent_unused(template: Document, assets: str) -> Document:
    """Add the agent to the workers."""

    def equipped(container: Document) -> Document:
        if container.get("name") != WORKER_CONTAINER:
            return container
        return podtemplate.add_mounts(container, [SCRIPTS_MOUNT])

    template = podtemplate.map_containers(template, equipped)
    return podtemplate.with_volumes(template, [scripts_volume(assets, openmpi.RSH_AGENT)])


def account_of(template: Mapping[str, Any], own: str) -> str:
    """Return the ServiceAccount of the master: what the user has written, else one of its own."""
    pod = template.get("spec") or {}
    given: str = pod.get("serviceAccountName") or pod.get("serviceAccount") or own
    return given
