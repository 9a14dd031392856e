#!/bin/sh
# start_sshd.sh
#
# Runs sshd for the user of this container, root or not, with a passwd entry or without, on port 2022.
# It and ssh use the keys of /ssh-key/openmpi: id_ed25519 or id_rsa (private), authorized_keys or the
# public keys. Everything is written to /tmp, which may be all that can be written.
set -u
callers_umask=$(umask)
umask 077

keys=/ssh-key/${SSH_USER:-openmpi}
library=/usr/local/lib/openmpi-ssh
run=/tmp/openmpi-ssh
port=2022
uid=$(id -u)

fail() {
  echo "start_sshd.sh: $*" >&2
  exit 1
}

export_variables() {
  # What sshd starts has sshd's variables; this file gives it those of the container.
  (
    unset PWD OLDPWD SHLVL _
    # The first line of a shell's output may belong to a variable of several lines, so nothing is
    # filtered out here.
    export -p
  ) > "$run/environment"
}

check_user() {
  # ssh and sshd refuse users without a passwd entry. In images of traincrew the name service looks
  # for more of them in this file.
  if ! getent passwd "$uid" > /dev/null; then
    chmod 755 "$run"
    group=$(id -g)
    [ "$group" -ge 500 ] || group=100
    echo "pod:x:$uid:$group:pod:${HOME:-/tmp}:/bin/sh" > "$run/passwd"
    chmod 644 "$run/passwd"
    getent passwd "$uid" > /dev/null || fail "user $uid has no entry in /etc/passwd, and ssh" \
      "refuses such users: set securityContext.runAsUser to a user of the image, or add" \
      "libnss-extrausers to the image (see images/openmpi/Dockerfile of traincrew)"
  fi
  # sshd would start, and say why it refuses every command in its own log only.
  entry=$(getent passwd "$uid")
  name=${entry%%:*}
  other="set securityContext.runAsUser to another user"
  case ${entry##*:} in
    */nologin | */false) fail "user $name may not run commands by ssh: its shell in /etc/passwd is" \
      "${entry##*:}; $other, or correct it in the image" ;;
  esac
  case $(getent shadow "$name" | cut -d : -f 2) in
    !*) fail "the account of user $name is locked in /etc/shadow, and sshd refuses it; $other, or" \
      "write '*' as its password in the image" ;;
  esac
}

copy_keys() {
  private=$("$library/copy-keys") || exit 1
  # Where the volume has them, sshd reads the keys that it accepts there: it shows those of now.
  if [ -s "$keys/authorized_keys" ]; then
    authorized=$keys/authorized_keys
  elif [ -s "$private.pub" ]; then
    authorized=$private.pub
  else
    authorized=$run/authorized_keys
    ssh-keygen -y -f "$run/identity" > "$authorized" < /dev/null \
      || fail "$private is not a private key, or it has a passphrase"
  fi
  [ -e "$run/host_key" ] || ssh-keygen -q -t ed25519 -N '' -C "$(hostname)" -f "$run/host_key" \
    || fail "ssh-keygen cannot create a host key"
}

write_configuration() {
  # Not StrictModes: it refuses files below /tmp and those of a volume. The directory is this user's
  # alone, checked below.
  cat > "$run/sshd_config" << END
Port $port
HostKey $run/host_key
PidFile $run/ready
AuthorizedKeysFile $authorized
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
PubkeyAuthentication yes
UsePAM no
UseDNS no
PrintMotd no
X11Forwarding no
MaxStartups 1000
MaxSessions 1000
ClientAliveInterval 30
ForceCommand $library/session
Subsystem sftp internal-sftp
END
  # From 9.8 on, sshd refuses for some time who has connected without logging in, as readiness probes
  # do. Where pods connect from the address of their node, that would be the other pods.
  {
    cat "$run/sshd_config"
    echo PerSourcePenalties no
  } > "$run/sshd_config.new"
  ! "$sshd" -t -f "$run/sshd_config.new" > /dev/null 2>&1 \
    || mv "$run/sshd_config.new" "$run/sshd_config"
}

mkdir -p "$run" 2> /dev/null || fail "/tmp cannot be written: the root file system is read-only, so" \
  "mount an emptyDir at /tmp"
[ -O "$run" ] || fail "$run belongs to somebody else"
chmod 700 "$run"
# Nothing in it is to be kept or copied; https://bford.info/cachedir/
echo "Signature: 8a477f597d28d172789f06886806bc55" > "$run/CACHEDIR.TAG"
# sshd starts itself again for each connection, and therefore wants to be called by its whole path.
sshd=$(PATH=$PATH:/usr/sbin:/usr/local/sbin:/sbin command -v sshd) || fail "there is no sshd: install" \
  "openssh-server"
check_user
export_variables
copy_keys
if [ "$uid" -eq 0 ]; then
  # Where sshd's unprivileged half lives.
  [ -d /run/sshd ] || mkdir -m 755 /run/sshd || fail "there is no directory /run/sshd"
  command -v getent > /dev/null && ! getent passwd sshd > /dev/null \
    && fail "there is no user sshd, which sshd needs: install openssh-server with its set-up script"
fi
write_configuration
# Sessions inherit it.
umask "$callers_umask"
exec "$sshd" -D -e -f "$run/sshd_config"
