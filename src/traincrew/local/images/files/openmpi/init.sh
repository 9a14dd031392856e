#!/bin/sh
# init.sh [COMMAND]
#
# The first process of a pod of an MPI cluster: starts sshd, then
# - with ONE_SHOT set: runs COMMAND by a shell, and ends with its exit code;
# - otherwise sleeps until it is told to end.
set -u

run=/tmp/openmpi-ssh
sshd_log=$run/sshd.log
started_within=30  # seconds

say() {
  echo "init.sh: $*" >&2
}

finish() {
  # For the sidecars of the chart of kube-openmpi, where it is used with this image.
  if [ -n "${GUILLOTINE:-}" ] && [ -d "$GUILLOTINE" ] && [ -w "$GUILLOTINE" ]; then
    echo "$1" > "$GUILLOTINE/execute"
  fi
  exit "$1"
}

without_probes() {
  # A readiness probe connects every few seconds and says nothing; sshd has two lines for that.
  while IFS= read -r line; do
    case $line in
      *"[preauth]") echo "$line" ;;
      "kex_exchange_identification: "* | "Connection closed by "* | "Connection reset by "*) ;;
      *) echo "$line" ;;
    esac
  done
}

terminate() {
  trap '' TERM INT
  [ -z "${sshd_process:-}" ] || kill -TERM "$sshd_process" 2>/dev/null
  if [ -n "${command_process:-}" ]; then
    kill -TERM "$command_process" 2>/dev/null
    wait "$command_process"
    finish $?
  fi
  # Told to end, an interactive pod has ended as it should; a command that never ran has not succeeded.
  [ -z "${ONE_SHOT:-}" ] || finish 143
  exit 0
}

sshd_failed() {
  say "sshd has ended; its log, $sshd_log:"
  tail -n 20 "$sshd_log" >&2
}

trap terminate TERM INT
if [ ! -x /start_sshd.sh ]; then
  say "there is no /start_sshd.sh. On the embedded cluster: pods without files of their own (bare" \
    "mode) cannot run an MPI cluster; traincrew doctor says why they have none"
  finish 1
fi
if ! (umask 077 && mkdir -p "$run" && : > "$sshd_log") 2> /dev/null; then
  say "/tmp cannot be written: if the root file system is read-only, mount an emptyDir there"
  finish 1
fi
# Where kube-openmpi has it.
ln -sf "$sshd_log" /tmp/sshd.log
rm -f "$run/ready"
/start_sshd.sh 2>&1 | without_probes > "$sshd_log" &
# That of the filter, which ends with sshd.
sshd_process=$!

waited=0
while [ ! -s "$run/ready" ]; do
  if ! kill -0 "$sshd_process" 2>/dev/null; then
    sshd_failed
    finish 1
  fi
  if [ "$waited" -ge $((started_within * 10)) ]; then
    say "sshd does not listen after $started_within s; its log, $sshd_log:"
    tail -n 20 "$sshd_log" >&2
    finish 1
  fi
  sleep 0.1
  waited=$((waited + 1))
done

if [ -n "${ONE_SHOT:-}" ]; then
  if [ $# -eq 0 ]; then
    say "ONE_SHOT is set, and there is no command: give it as the argument of /init.sh"
    finish 2
  fi
  shell=$(command -v bash || command -v sh)
  "$shell" -c "$*" &
  command_process=$!
  wait "$command_process"
  finish $?
fi

# A shell notices a signal while it waits, but not while a program runs in the foreground.
wait "$sshd_process"
sshd_failed
finish 1
