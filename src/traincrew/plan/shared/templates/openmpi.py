"""What Open MPI needs in the pods: the hosts of the ranks, and a way to start processes there.

Shared by the kinds that launch through the Kubernetes API. `mpiexec` on the master reads a
hostfile, and starts a daemon on every other host by calling the *rsh agent*, a script with the
interface of ssh: ``agent HOST WORD...``. Our agent is ``kubexeb.sh``, which goes through
``kubectl exec``.

The scripts run in unknown images, so they are POSIX sh and use only its built-ins and a few POSIX
utilities (`uname`, `sleep`, `mv`, `rm`, `cp`, `chmod`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from traincrew.plan.shared.templates import podtemplate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

DOWNLOAD_KUBECTL = "download_kubectl.sh"
RSH_AGENT = "kubexeb.sh"
GENERATE_HOSTFILE = "gen_hostfile.sh"
SETS_AND_SLOTS = "statefulsets_and_slots"
AGENT_ASSETS = (DOWNLOAD_KUBECTL, RSH_AGENT)
ASSETS = (*AGENT_ASSETS, GENERATE_HOSTFILE, SETS_AND_SLOTS)

MAX_PREFIX = 49
"""Characters of a host name before its first digit that Open MPI 4 copes with by default.

It describes the hosts to its daemons by a regular expression, and puts these characters into a
buffer of 50 bytes on the stack without a check of their number (``ORTE_MAX_NODE_PREFIX``, used by
``orte/mca/regx/fwd/regx_fwd.c``). With more of them mpiexec may die by a signal, or not, as chance
has it.
"""


class Paths(Struct, frozen=True):
    """Paths of a kind's files in the containers.

    Attributes:
        base: Directory that contains all of them.
    """

    base: str

    @property
    def generated(self) -> str:
        """Directory of the files that are written when a pod starts."""
        return f"{self.base}/generated"

    @property
    def kubectl(self) -> str:
        """Directory of kubectl."""
        return f"{self.base}/kube"

    @property
    def assets(self) -> str:
        """Directory of `assets`."""
        return f"{self.base}/assets"

    @property
    def hostfile(self) -> str:
        """The hostfile."""
        return f"{self.generated}/hostfile"

    @property
    def agent(self) -> str:
        """The rsh agent."""
        return f"{self.assets}/{RSH_AGENT}"


def agent_environment(paths: Paths) -> dict[str, str]:
    """Return the environment variables of a container in which mpiexec uses the agent.

    Open MPI up to 4 reads its launcher settings from ``OMPI_MCA_orte_*`` and ``OMPI_MCA_plm_*``;
    5 hands launching to PRRTE, which ignores those and reads ``PRTE_MCA_*``. Both are set, so that
    images with either work.

    mpiexec starts every daemon itself. By default daemons start each other once there are many
    hosts, and every pod would need access to the API.
    """
    return {
        "KUBECTL_DIR": paths.kubectl,
        "OMPI_MCA_plm_rsh_agent": paths.agent,
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        "OMPI_MCA_orte_keep_fqdn_hostnames": "t",
        "PRTE_MCA_plm_ssh_agent": paths.agent,
        "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
    }


def environment(paths: Paths) -> dict[str, str]:
    """Return `agent_environment`, with a hostfile that mpiexec finds by itself."""
    return {
        **agent_environment(paths),
        "OMPI_MCA_orte_default_hostfile": paths.hostfile,
        "OMPI_MCA_btl_tcp_if_exclude": "lo,docker0",
        "PRTE_MCA_prte_default_hostfile": paths.hostfile,
    }


def host_name_environment(hosts: Iterable[str]) -> dict[str, str]:
    """Return the environment variables that mpiexec needs because of the names of its hosts.

    The component ``naive`` of Open MPI's framework ``regx`` lists the names instead of compressing
    them, so it takes names of any length. Open MPI 5 has no such limit and ignores the variable.
    Versions 4.0.0 and 4.0.1 lack the component and would start nothing if it were named, so it is
    named only where the names need it.

    Args:
        hosts: Names as they stand in the hostfile. Of a part that is not known in advance,
            letters are the worst case.
    """
    longest = max((len(re.split("[0-9]", host, maxsplit=1)[0]) for host in hosts), default=0)
    return {"OMPI_MCA_regx": "naive"} if longest > MAX_PREFIX else {}


def agent_assets(paths: Paths, container: str, domain: str = "") -> dict[str, str]:
    """Return the files of the agent, by name.

    Args:
        paths: Where the files are.
        container: The container that processes are started in.
        domain: What follows the name of the pod in a host name; empty if nothing does.
    """
    agent = _with_paths(_RSH_AGENT, paths).replace("@CONTAINER@", container)
    pod = f"${{1%.{domain}}}" if domain else "$1"
    return {DOWNLOAD_KUBECTL: _DOWNLOAD_KUBECTL, RSH_AGENT: agent.replace("@POD@", pod)}


def assets(paths: Paths, slots_by_set: Mapping[str, int], container: str) -> dict[str, str]:
    """Return the files of every pod that finds its hosts by itself, by name.

    Args:
        paths: Where the files are.
        slots_by_set: MPI slots of one pod, by the name of its StatefulSet.
        container: The container that processes are started in.
    """
    return {
        **agent_assets(paths, container),
        GENERATE_HOSTFILE: _with_paths(_GENERATE_HOSTFILE, paths),
        SETS_AND_SLOTS: sets_and_slots(slots_by_set),
    }


def kubectl_container(
    name: str, image: str, main: dict[str, Any], paths: Paths, mounts: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Return the init container that brings kubectl into the directory `Paths.kubectl`.

    Args:
        name: Its name.
        image: Has kubectl at /usr/local/bin/kubectl.
        main: The container that processes are started in.
        paths: Where the files are.
        mounts: The volumes with `agent_assets` and for kubectl.
    """
    return podtemplate.helper(
        name,
        image,
        main,
        command=[f"{paths.assets}/{DOWNLOAD_KUBECTL}"],
        args=[paths.kubectl],
        volumeMounts=[*mounts],
    )


def exec_rules(pods: Sequence[str], *verbs: str) -> list[dict[str, Any]]:
    """Return the rules of a Role with which the agent starts processes in these pods.

    Args:
        pods: Their names.
        verbs: More verbs on the pods.
    """
    if not pods:  # an empty list of names would mean every pod
        return []
    return [
        {
            "apiGroups": [""],
            "resources": ["pods"],
            "resourceNames": [*pods],
            "verbs": ["get", *verbs],
        },
        {
            # kubectl exec opens a websocket, which begins with a GET; the API server asks
            # for `create` besides (1.35 and newer). SPDY, its fallback, begins with a POST.
            "apiGroups": [""],
            "resources": ["pods/exec"],
            "resourceNames": [*pods],
            "verbs": ["get", "create"],
        },
    ]


def binding(account: str, namespace: str, role: str) -> dict[str, Any]:
    """Return what a RoleBinding says that gives a Role to a ServiceAccount."""
    return {
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
    }


def _with_paths(script: str, paths: Paths) -> str:
    return script.replace("@KUBECTL@", paths.kubectl)


def sets_and_slots(slots_by_set: Mapping[str, int]) -> str:
    """Return one line per StatefulSet, sorted: the order of hosts must be the same in all pods."""
    return "".join(f"{name} slots={slots}\n" for name, slots in sorted(slots_by_set.items()))


_DOWNLOAD_KUBECTL = """\
#!/bin/sh
# download_kubectl.sh DIRECTORY
# Puts kubectl into DIRECTORY. It is copied from the helper image this script runs in; in spite of
# its name, which earlier versions gave it, nothing is downloaded.
set -eu

directory=$1
source=${KUBECTL_SOURCE:-/usr/local/bin/kubectl}

if [ ! -f "$source" ]; then
  echo "download_kubectl.sh: no $source in this image; it must be the traincrew helper image" >&2
  exit 1
fi
cp "$source" "$directory/kubectl.new"
chmod 755 "$directory/kubectl.new"
mv "$directory/kubectl.new" "$directory/kubectl"
echo "kubectl is in $directory"
"""

# Open MPI calls the agent as it would call ssh: the host, then the command as one word or several.
# ssh joins the words with spaces and has them read by the remote user's shell, and Open MPI has
# quoted them for that. `sh -c "$*"` is the same on our side.
_RSH_AGENT = """\
#!/bin/sh
# kubexeb.sh POD WORD...
# Runs a command in the container @CONTAINER@ of another pod, as "ssh POD WORD..." would on another
# host: the words, joined by spaces, are read by a shell over there.

# An image may have options for its own ssh. They come first, and mean nothing here.
while [ $# -gt 1 ]; do
  case $1 in
    -[BbcDEeFIiJLlmOopPQRSWw]) shift ;;  # a value follows
    -*) ;;
    *) break ;;
  esac
  shift
done
if [ $# -lt 2 ]; then
  echo "usage: kubexeb.sh POD COMMAND..." >&2
  exit 2
fi
pod=@POD@
shift

if [ "$pod" = "$(uname -n)" ]; then
  exec /bin/sh -c "$*"
fi
exec "${KUBECTL_DIR:-@KUBECTL@}/kubectl" \\
  exec -i "$pod" -c @CONTAINER@ -- /bin/sh -c "$*"
"""

_GENERATE_HOSTFILE = """\
#!/bin/sh
# gen_hostfile.sh TARGET MASTER_POD [slots=1] [FILE] [MAX_TRY=100] [SLEEP=5]
# Writes the hostfile: the master first, which makes it rank 0, then every pod of every StatefulSet
# named in FILE (lines "NAME slots=N"). Waits until all of them are ready, MAX_TRY times SLEEP
# seconds at most. The file is complete, or it is not written and the exit code is 1.
set -eu

target=$1
master=$2
slots=${3:-slots=1}
file=${4:-/dev/null}
max_try=${5:-100}
pause=${6:-5}
kubectl=${KUBECTL:-${KUBECTL_DIR:-@KUBECTL@}/kubectl}

# All sets of FILE into $target.new; 1 and the reason in $problem when one is not ready.
collect() {
  echo "$master $slots" > "$target.new"
  while read -r name set_slots; do
    [ -n "$name" ] || continue
    if ! wanted=$("$kubectl" get statefulset "$name" -o 'jsonpath={.spec.replicas}' 2>&1); then
      problem="cannot read StatefulSet $name: $wanted"
      return 1
    fi
    if ! ready=$("$kubectl" get statefulset "$name" -o 'jsonpath={.status.readyReplicas}' 2>&1)
    then
      problem="cannot read StatefulSet $name: $ready"
      return 1
    fi
    case $wanted in
      '' | *[!0-9]*) problem="StatefulSet $name has no number of replicas: $wanted"; return 1 ;;
    esac
    if [ "${ready:-0}" != "$wanted" ]; then
      problem="StatefulSet $name: ${ready:-0} of $wanted pods are ready"
      return 1
    fi
    index=0
    while [ "$index" -lt "$wanted" ]; do
      echo "$name-$index $set_slots" >> "$target.new"
      index=$((index + 1))
    done
  done < "$file"
}

try=1
while ! collect; do
  if [ "$try" -ge "$max_try" ]; then
    rm -f "$target.new"
    echo "gen_hostfile.sh: giving up after $try tries: $problem" >&2
    exit 1
  fi
  echo "waiting ($try/$max_try): $problem"
  try=$((try + 1))
  sleep "$pause"
done
mv "$target.new" "$target"
echo "hostfile:"
while read -r line; do
  echo "  $line"
done < "$target"
"""
