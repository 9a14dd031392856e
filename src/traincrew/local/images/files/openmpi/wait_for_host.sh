#!/bin/sh
# wait_for_host.sh HOST
#
# What ssh runs before it connects to a host. Waits until the name has an address: ssh tries once to
# find it, and a cluster's name server knows a new pod only after some seconds. In the end ssh is to
# report that the name is unknown, if it is. And sees to it that ssh uses the keys that the cluster has
# now.
host=$1
"${0%/*}/copy-keys" > /dev/null 2>&1
case $host in
  *:*) exit 0 ;;           # an IPv6 address
  *[!0-9.]*) ;;            # a name
  *) exit 0 ;;             # an IPv4 address, which getent would want to know the name of
esac
waited=0
while ! getent hosts "$host" > /dev/null && [ "$waited" -lt 45 ]; do
  [ "$waited" -ne 10 ] || echo "waiting for the address of $host" >&2
  sleep 1
  waited=$((waited + 1))
done
