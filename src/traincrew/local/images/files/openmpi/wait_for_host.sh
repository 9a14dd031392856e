#!/bin/sh
# wait_for_host.sh HOST
#
# Waits until a host name has an address. ssh tries once to find it, and a cluster's name server knows
# a new pod only after some seconds. In the end ssh is to report that the name is unknown, if it is.
host=$1
waited=0
while ! getent hosts "$host" > /dev/null && [ "$waited" -lt 45 ]; do
  [ "$waited" -ne 10 ] || echo "waiting for the address of $host" >&2
  sleep 1
  waited=$((waited + 1))
done
