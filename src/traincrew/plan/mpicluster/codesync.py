"""``spec.codeSync`` of an MPICluster: an init container for each repository, which runs git.

With ``updateSeconds`` a sidecar follows it (`codeupdate`), which runs the same script again.

The variables of the init container are those of git-sync, which kube-openmpi used. It runs as the
user of the pod, whoever that is; therefore the key of a Secret is readable in the volume, which
nothing else mounts, and copied for ssh, which refuses keys that others can read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from traincrew.api.kinds.mpicluster.codesync import COMMIT, FETCH_SUFFIX, UPDATE_SUFFIX
from traincrew.api.kinds.mpicluster.types import OWN_PREFIX
from traincrew.plan.mpicluster import codeupdate
from traincrew.plan.shared.templates import podtemplate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traincrew.api.kinds.mpicluster.codesync import CodeSync

ROOT, SECRET, HOME = "/git", "/etc/git-secret", "/tmp"  # noqa: S108 - a volume of its own
"""Where the container has the volume of the code, the Secret, and what it alone may read."""
HOME_VOLUME = f"{OWN_PREFIX}git-home"
SECRET_MODE = 0o444
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a directory
"""Where pods have the token of their ServiceAccount. The API server mounts none in a container that
has a volume there already."""
TOKEN_VOLUME = f"{OWN_PREFIX}no-token"
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
"""Variables by which git, like most programs, finds a proxy; in capitals as well."""

SCRIPT = r"""set -eu
root=$1 secret=$2
target=$root/$GIT_SYNC_DEST new=$root/.fetching key=$HOME/git-key errors=$HOME/git-errors
deadline=$(($(date +%s) + ${GIT_SYNC_TIMEOUT:-0}))
trap 'rm -rf "$key" "$errors" "$new"' EXIT

fail() {
  echo "$*" >&2
  exit 1
}

# ssh refuses users without a passwd entry. In traincrew/git the name service finds this one.
name_user() {
  id -un > /dev/null 2>&1 && return
  mkdir -p "$HOME/git-user"
  echo "git:x:$(id -u):100:git:$HOME:/bin/sh" > "$HOME/git-user/passwd"
  id -un > /dev/null 2>&1 || fail "user $(id -u) has no entry in /etc/passwd of this image, and" \
    "ssh refuses such users: set securityContext.runAsUser to another user"
}

prepare_ssh() {
  ssh="ssh -F /dev/null -o BatchMode=yes -o LogLevel=ERROR -o ConnectTimeout=60"
  if [ -e "$secret/ssh" ]; then
    name_user
    # Many a Secret written by hand has lost the last line feed of the key, which ssh needs.
    (umask 077 && { cat "$secret/ssh" && echo; } | tr -d '\r' | sed '/^ *$/d' > "$key")
    ssh-keygen -y -P '' -f "$key" > /dev/null 2>&1 || fail "the key ssh of the Secret is not a" \
      "private key, or it has a passphrase: make one with ssh-keygen -t ed25519 -N ''"
    ssh="$ssh -o IdentitiesOnly=yes -i '$key'"
  fi
  if [ -e "$secret/known_hosts" ]; then
    ssh="$ssh -o StrictHostKeyChecking=yes -o UserKnownHostsFile='$secret/known_hosts'"
    ssh="$ssh -o GlobalKnownHostsFile=/dev/null -o UpdateHostKeys=no"
  else
    ssh="$ssh -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
  fi
  export GIT_SSH_COMMAND="$ssh"
}

# For this server alone: another one that it redirects to is not given the password.
prepare_password() {
  [ -e "$secret/password" ] || return 0
  server=$(printf '%s\n' "$GIT_SYNC_REPO" | sed -n 's,^\(https*://[^/]*\).*,\1,p')
  [ -n "$server" ] || return 0
  export GIT_SECRET="$secret" GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0="credential.$server.helper"
  export GIT_CONFIG_VALUE_0='!f() { test "$1" = get || return 0
    echo "username=$(cat "$GIT_SECRET/username")"
    echo "password=$(cat "$GIT_SECRET/password")"; }; f'
}

# Runs git for as long as is left.
run() {
  set -- git "$@"
  if [ -n "${GIT_SYNC_TIMEOUT:-}" ]; then
    left=$((deadline - $(date +%s)))
    [ "$left" -gt 0 ] || return 124
    set -- timeout "$left" "$@"
  fi
  "$@" 2> "$errors"
}

clone() {
  rm -rf "$new"
  run clone --quiet "$@" -- "$GIT_SYNC_REPO" "$new"
}

fetch_branch() {
  [ -z "${GIT_SYNC_BRANCH:-}" ] || set -- --branch "$GIT_SYNC_BRANCH"
  clone --depth 1 "$@" && return
  code=$?
  # Files of a web server that knows nothing of git.
  grep -q 'not support shallow' "$errors" || return "$code"
  clone "$@"
}

fetch_commit() {
  rm -rf "$new"
  run init --quiet "$new" || return
  run -C "$new" remote add origin "$GIT_SYNC_REPO" || return
  if run -C "$new" fetch --quiet --depth 1 origin "$GIT_SYNC_REV"; then
    run -C "$new" checkout --quiet --detach FETCH_HEAD
    return
  fi
  # Some servers give a commit only as a part of a branch or tag.
  clone --no-checkout || return
  run -C "$new" checkout --quiet --detach "$GIT_SYNC_REV" && return
  code=$?
  echo "there is no commit $GIT_SYNC_REV in $GIT_SYNC_REPO" >> "$errors"
  return "$code"
}

fetch() {
  if [ -n "${GIT_SYNC_REV:-}" ]; then fetch_commit; else fetch_branch; fi
}

fetch_submodules() {
  [ -n "${GIT_SYNC_SUBMODULES:-}" ] || return 0
  set -- -C "$new" submodule --quiet update --init --recursive
  run "$@" --depth 1 && return
  [ $? -ne 124 ] || return 124
  # Some servers give a commit only as a part of a branch or tag.
  run -C "$new" submodule --quiet deinit --all --force || return
  rm -rf "$new/.git/modules"
  run "$@"
}

give_up() {
  # Without what git adds for every reason, so that the last lines are the reason.
  sed -e '/^Please make sure you have the correct access/d' -e '/^and the repository exists/d' \
    "$errors" >&2 || true
  [ "$1" -ne 124 ] || echo "$GIT_SYNC_REPO: not fetched in $GIT_SYNC_TIMEOUT s" \
    "(timeoutSeconds)" >&2
  exit "$1"
}

export GIT_TERMINAL_PROMPT=0
: > "$errors"
if [ -d "$secret" ] && [ ! -e "$secret/ssh" ] && [ ! -e "$secret/password" ]; then
  fail "the Secret has no key ssh (a private key), and none called password"
fi
prepare_ssh
prepare_password
if [ -n "${GIT_SYNC_PERIOD:-}" ] && is_newest; then exit 0; fi
fetch && fetch_submodules || give_up $?
if [ -n "${GIT_SYNC_SUB_PATH:-}" ] && [ ! -e "$new/$GIT_SYNC_SUB_PATH" ]; then
  fail "subPath: there is no $GIT_SYNC_SUB_PATH in $GIT_SYNC_REPO; there are" \
    "$(ls "$new" | head -n 10 | tr '\n' ' ')"
fi
commit=$(git -C "$new" rev-parse --verify --quiet HEAD) || commit="nothing, it is empty"
if [ -n "${GIT_SYNC_PERIOD:-}" ]; then
  publish
else
  rm -rf "$target"
  mv "$new" "$target"
fi
echo "$GIT_SYNC_REPO: $commit"
"""
"""Fetches a repository, completely or not at all: a pod may be started again at any time."""

RETRY = r"""set -u
root=$1 secret=$2 script=$3
trap 'exit 143' TERM INT
for delay in 5 10 20; do
  /bin/sh -c "$script" fetch "$root" "$secret" && exit 0
  echo "tried again in $delay s" >&2
  sleep "$delay" &
  wait $!
done
exec /bin/sh -c "$script" fetch "$root" "$secret"
"""
"""Makes the attempts that a kubelet makes of itself, except in a pod that is never restarted."""

Document = dict[str, Any]


def volumes(codes: Sequence[CodeSync], *, hides_token: bool = False) -> list[Document]:
    """Return the volumes of all entries, and an empty one instead of the token of the pod."""
    found: list[Document] = []
    for code in codes:
        found.append({"name": _volume(code), "emptyDir": {}})
        if code.secret_name is not None:
            secret = {"secretName": code.secret_name, "defaultMode": SECRET_MODE}
            found.append({"name": f"{_volume(code)}-secret", "secret": secret})
    # Not on a disk, because they have a copy of a key for some seconds.
    homes = dict.fromkeys(_home_volume(code) for code in codes)
    found += [{"name": name, "emptyDir": {"medium": "Memory"}} for name in homes]
    if codes and hides_token:
        found.append({"name": TOKEN_VOLUME, "emptyDir": {}})
    return found


def mount(code: CodeSync) -> Document:
    """Return the mount of the code in the main container."""
    found = {"name": _volume(code), "mountPath": code.mount_path}
    if code.sub_path is None or code.update_seconds is not None:
        return found  # what a subPath leads to is found once, when the container starts
    return {**found, "subPath": code.sub_path}


def containers(
    codes: Sequence[CodeSync], image: str, main: Document, *, hides_token: bool = False
) -> list[Document]:
    """Return the init containers that fetch repositories, and the sidecars that do it again.

    Args:
        codes: The entries.
        image: Has git, ssh and a POSIX shell.
        main: The container that the code is for, whose proxy is used.
        hides_token: Whether they must not see the token of the pod. They run a program that talks
            to a server of the user's choice, and need no access to the Kubernetes API.
    """
    updated = [code for code in codes if code.update_seconds is not None]
    found = [
        *(_fetch(code, image, main) for code in codes),
        *(_update(code, image, main) for code in updated),
    ]
    if not hides_token:
        return found
    hidden = {"name": TOKEN_VOLUME, "mountPath": TOKEN, "readOnly": True}
    return [podtemplate.add_mounts(each, [hidden]) for each in found]


def _fetch(code: CodeSync, image: str, main: Document) -> Document:
    return podtemplate.helper(
        f"{code.name}{FETCH_SUFFIX}",
        image,
        main,
        command=["/bin/sh", "-c", _script(code), "fetch", ROOT, SECRET],
        env=_env(_variables(code), main),
        volumeMounts=_mounts(code),
    )


def retried(codes: Sequence[CodeSync], container: Document) -> Document:
    """Return an init container of a pod that is never restarted.

    There, a server that is gone for a moment would fail the cluster, before its command has begun.
    """
    if container["name"] not in {f"{code.name}{FETCH_SUFFIX}" for code in codes}:
        return container
    *shell, script, name, root, secret = container["command"]
    return {**container, "command": [*shell, RETRY, name, root, secret, script]}


def _update(code: CodeSync, image: str, main: Document) -> Document:
    limit = {"GIT_SYNC_TIMEOUT": str(code.timeout_seconds or codeupdate.TIMEOUT_SECONDS)}
    return codeupdate.sidecar(
        f"{code.name}{UPDATE_SUFFIX}",
        image,
        main,
        arguments=[ROOT, SECRET, _script(code)],
        seconds=code.update_seconds or 0,
        env=_env(_variables(code) | limit, main),
        volumeMounts=_mounts(code),
    )


def _script(code: CodeSync) -> str:
    return SCRIPT if code.update_seconds is None else f"{codeupdate.VERSIONS}{SCRIPT}"


def _variables(code: CodeSync) -> dict[str, str]:
    variables = {"HOME": HOME, "GIT_SYNC_REPO": code.repository, "GIT_SYNC_DEST": code.name}
    if code.branch is not None:
        is_commit = re.fullmatch(COMMIT, code.branch) is not None
        variables["GIT_SYNC_REV" if is_commit else "GIT_SYNC_BRANCH"] = code.branch
    if code.timeout_seconds is not None:
        variables["GIT_SYNC_TIMEOUT"] = str(code.timeout_seconds)
    if code.submodules:
        variables["GIT_SYNC_SUBMODULES"] = "true"
    if below := (code.sub_path or "").removeprefix(code.name).strip("/"):
        variables["GIT_SYNC_SUB_PATH"] = below
    if code.update_seconds is not None:
        variables["GIT_SYNC_PERIOD"] = str(code.update_seconds)
        if code.sub_path is None:
            variables["GIT_SYNC_LINK"] = code.name
    return variables


def _env(variables: dict[str, str], main: Document) -> list[Document]:
    """Return variables, and those of the main container that name a proxy."""
    given = main.get("env") or ()
    return [
        *({"name": name, "value": _literal(value)} for name, value in variables.items()),
        *(each for each in given if each.get("name", "").lower() in PROXIES),
    ]


def _mounts(code: CodeSync) -> list[Document]:
    mounts: list[Document] = [
        {"name": _volume(code), "mountPath": ROOT},
        {"name": _home_volume(code), "mountPath": HOME},
    ]
    if code.secret_name is not None:
        secret = f"{_volume(code)}-secret"
        mounts.append({"name": secret, "mountPath": SECRET, "readOnly": True})
    return mounts


def _volume(code: CodeSync) -> str:
    return f"{OWN_PREFIX}sync-{code.name}"


def _home_volume(code: CodeSync) -> str:
    """Return the volume of what one container at a time may read: sidecars run side by side."""
    return HOME_VOLUME if code.update_seconds is None else f"{HOME_VOLUME}-{code.name}"


def _literal(value: str) -> str:
    """Return the text of a variable in which a kubelet finds no name of another one."""
    return value.replace("$", "$$")
