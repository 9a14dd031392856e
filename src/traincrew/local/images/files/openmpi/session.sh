#!/bin/sh
# What sshd runs for every session: the command that ssh was given, or a shell, with the variables of
# the container. sshd itself passes none of them on.
if [ -r /tmp/openmpi-ssh/environment ]; then
  . /tmp/openmpi-ssh/environment
fi
if [ "${SSH_ORIGINAL_COMMAND:-}" = internal-sftp ]; then
  for server in /usr/lib/openssh/sftp-server /usr/libexec/openssh/sftp-server /usr/libexec/sftp-server; do
    [ ! -x "$server" ] || exec "$server"
  done
  echo "there is no sftp-server in this image" >&2
  exit 127
fi
if [ -n "${SSH_ORIGINAL_COMMAND:-}" ]; then
  exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"
fi
exec "$(command -v bash || echo /bin/sh)"
