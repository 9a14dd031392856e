#!/bin/sh
# copy_key.sh
#
# Copies the private key of the job to where only its user may read it. Where a pod has one user alone,
# that user owns the files of the Secret, and ssh and sshd refuse a key of theirs that others may read.
umask 077
run=/tmp/mpijob-ssh
mkdir -p "$run"
# Nothing in it is to be kept or copied; https://bford.info/cachedir/
echo "Signature: 8a477f597d28d172789f06886806bc55" > "$run/CACHEDIR.TAG"
for key in "${HOME:-/root}/.ssh/id_rsa" /home/mpiuser/.ssh/id_rsa /root/.ssh/id_rsa; do
  if [ -r "$key" ]; then
    [ -e "$run/id" ] || { cat "$key" > "$run/id.$$" && mv -f "$run/id.$$" "$run/id"; }
    exit
  fi
done
