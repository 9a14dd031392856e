#!/bin/sh
# The sshd of this machine, with a copy of the job's key besides the one in its settings.
/usr/local/lib/mpijob/copy-key
exec /usr/local/lib/mpijob/sshd "$@" -h /tmp/mpijob-ssh/id
