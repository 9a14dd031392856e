#!/bin/sh
# copy_keys.sh
#
# Copies the private keys of the cluster to where ssh reads them, unless they are there already, and
# prints where the one in use comes from. ssh refuses a key that others may read, as they may in a
# volume with a group. The volume changes when the keys are rotated: id_previous is the key that pods
# accept whose volume has not changed yet.
set -u
umask 077

keys=/ssh-key/${SSH_USER:-openmpi}
run=/tmp/openmpi-ssh

fail() {
  echo "start_sshd.sh: $*" >&2
  exit 1
}

copy() {  # FROM TO
  # A key that has lost its last line feed, as in many Secrets written by hand, is "invalid format".
  text=$(sed '/^[[:space:]]*$/d' "$1") || fail "$1 cannot be read"
  [ -e "$2" ] && [ "$text" = "$(cat "$2")" ] && return
  # Another ssh may be reading the file, or be here as well.
  { printf '%s\n' "$text" > "$2.$$" && mv -f "$2.$$" "$2"; } || fail "$1 cannot be copied to $run"
}

[ -d "$keys" ] || fail "there is no directory $keys: mount the Secret with the cluster's ssh keys"
private=
for name in id_ed25519 id_rsa id_ecdsa; do
  if [ -e "$keys/$name" ]; then
    private=$keys/$name
    break
  fi
done
[ -n "$private" ] || fail "$keys has no private key: it needs id_ed25519 or id_rsa"
[ -r "$private" ] || fail "user $(id -u) may not read $private: set securityContext.fsGroup of the" \
  "pod, to 1000 for example"
copy "$private" "$run/identity"
if [ -r "$keys/id_previous" ]; then
  copy "$keys/id_previous" "$run/identity.previous"
else
  rm -f "$run/identity.previous"
fi
echo "$private"
