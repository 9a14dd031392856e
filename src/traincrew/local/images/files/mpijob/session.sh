#!/bin/sh
# What sshd runs for every session. sshd sets PATH itself, so it is extended here: the launcher sends
# where its image has Open MPI and Python, which is where this pod has them.
PATH=${OPAL_PREFIX:+$OPAL_PREFIX/bin:}$PATH
exec /bin/sh -c "${SSH_ORIGINAL_COMMAND:-exec /bin/sh}"
