"""``spec.codeSync[].updateSeconds``: a sidecar that fetches new commits while the pod runs.

It is an init container with ``restartPolicy: Always``, which a kubelet ends after the other
containers: a pod that runs a command ends when that does. A pod whose sidecar waits to be started
again is not ready, and would lose its line in the hostfile. Therefore the sidecar never ends
because a server cannot be reached. It reports that by a liveness probe, from which a kubelet makes
events of the pod, with as many attempts as there can be.

The volume is laid out as a kubelet lays out a ConfigMap's, so that a reader sees one version or the
other at each moment, never a mixture:

    ..code/<commit>/     the newest versions
    ..data               -> ..code/<newest commit>, or a directory in it: replaced by a rename
    <name>               -> ..data, if all of the repository is mounted
    <entry>              -> ..data/<entry> for each entry of the directory, if a subPath is mounted
"""

from __future__ import annotations

from typing import Any

from traincrew.api.runpolicy import INT32_MAX
from traincrew.plan.shared.templates import podtemplate

TIMEOUT_SECONDS = 300
"""Limit of an attempt without timeoutSeconds: a server that never answers must be reported."""
MAX_PROBE_SECONDS = 60
PROBE_TIMEOUT_SECONDS = 10
AMOUNTS = {"cpu": "250m", "memory": "512Mi"}
"""Requests and limits of the sidecar. They add to those of the main container, so that they cannot
be the same; and they are equal, so that they do not change the pod's QoS class."""

VERSIONS = r"""# Whether the server has what was fetched last. Sets what it has.
is_newest() {
  set -- HEAD
  [ -z "${GIT_SYNC_BRANCH:-}" ] || set -- "refs/heads/$GIT_SYNC_BRANCH" "refs/tags/$GIT_SYNC_BRANCH"
  served=$(run ls-remote --quiet -- "$GIT_SYNC_REPO" "$@") || give_up $?
  last=$(cat "$root/..served" 2> /dev/null) || return 1
  [ -n "$served" ] && [ "$served" = "$last" ]
}

is_there() {
  [ -e "$1" ] || [ -L "$1" ]
}

# By a rename, which nobody sees half of.
replace_link() {
  ln -sfn "$1" "$2.new"
  case $(uname) in
    Darwin | *BSD) mv -fh "$2.new" "$2" ;;
    *) mv -fT "$2.new" "$2" ;;
  esac
}

link_entries() {
  for path in "$root/..data"/* "$root/..data"/.[!.]*; do
    entry=${path##*/}
    if is_there "$path" && ! is_there "$root/$entry"; then
      ln -s "..data/$entry" "$root/$entry"
    fi
  done
  for path in "$root"/* "$root"/.[!.]*; do
    entry=${path##*/}
    if [ "$(readlink "$path")" = "..data/$entry" ] && ! is_there "$root/..data/$entry"; then
      rm -f "$path"
    fi
  done
}

# Lets readers find $new, and keeps two older versions for programs that have begun to read them.
publish() {
  version=${commit%%,*}
  if [ -n "${GIT_SYNC_SUB_PATH:-}" ] && [ ! -d "$new/$GIT_SYNC_SUB_PATH" ]; then
    fail "subPath: $GIT_SYNC_SUB_PATH is a file; with updateSeconds it has to be a directory"
  fi
  mkdir -p "$root/..code"
  [ -d "$root/..code/$version" ] || mv "$new" "$root/..code/$version"
  touch "$root/..code/$version"
  replace_link "..code/$version${GIT_SYNC_SUB_PATH:+/$GIT_SYNC_SUB_PATH}" "$root/..data"
  if [ -n "${GIT_SYNC_LINK:-}" ]; then
    is_there "$root/$GIT_SYNC_LINK" || ln -s ..data "$root/$GIT_SYNC_LINK"
  else
    link_entries
  fi
  ls -1t "$root/..code" | tail -n +4 | while read -r old; do
    [ "$old" = "$version" ] || rm -rf "${root:?}/..code/$old" || true
  done
  printf '%s\n' "$served" > "$root/..served"
}

"""
"""Functions for the script that fetches a repository."""

UPDATE = r"""set -u
root=$1 secret=$2 script=$3 job=
failed=$HOME/update-failed said=$HOME/update-said
# A shell that is process 1 is not ended by signals that it has no trap for.
trap '[ -z "$job" ] || kill "$job" 2> /dev/null; exit 0' TERM INT

finish() {
  job=$!
  wait "$job"
}

report() {
  {
    echo "not updated, tried again every $GIT_SYNC_PERIOD s:"
    cat "$said"
  } > "$said.new"
  # Once for each reason: it may stay for days.
  cmp -s "$said.new" "$failed" || cat "$said.new" >&2
  mv "$said.new" "$failed"
}

while :; do
  sleep "$GIT_SYNC_PERIOD" &
  finish
  /bin/sh -c "$script" update "$root" "$secret" 2> "$said" &
  if finish; then
    [ ! -e "$failed" ] || echo "$GIT_SYNC_REPO: reached again"
    rm -f "$failed"
  else
    report
  fi
done
"""
"""Fetches new commits for ever."""

PROBE = '! cat "$HOME/update-failed" 2> /dev/null'
"""Fails with the reason for which the last attempt has failed."""

Document = dict[str, Any]


def sidecar(
    name: str, image: str, main: Document, *, arguments: list[str], seconds: int, **fields: Any
) -> Document:
    """Return the sidecar that keeps a repository up to date.

    Args:
        name: Name of the container.
        image: Has git, ssh and a POSIX shell.
        main: The container that the code is for.
        arguments: Of `UPDATE`: the volume, the Secret, and the script that fetches.
        seconds: Time between two attempts.
        fields: Other fields of the container.
    """
    probe = {
        "exec": {"command": ["/bin/sh", "-c", PROBE]},
        "periodSeconds": min(seconds, MAX_PROBE_SECONDS),
        "timeoutSeconds": PROBE_TIMEOUT_SECONDS,
        "failureThreshold": INT32_MAX,
    }
    container = podtemplate.helper(
        name,
        image,
        main,
        restartPolicy="Always",
        command=["/bin/sh", "-c", UPDATE, "update", *arguments],
        livenessProbe=probe,
        **fields,
    )
    if "resources" in container:
        container["resources"] = {
            kind: {unit: AMOUNTS[unit] for unit in amounts}
            for kind, amounts in container["resources"].items()
        }
    return container
