#!/bin/sh
# no-rsh-agent HOST WORD...
# Stands for ssh where there is no way to start processes on other hosts, and says so.
echo "cannot start processes on $1: Open MPI has not been told how (OMPI_MCA_plm_rsh_agent is not" \
  "set). The operator does that in the pods of a ChainerJob with workerSets; without it leave out" \
  "--host and --hostfile." >&2
exit 1
