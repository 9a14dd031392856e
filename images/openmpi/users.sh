#!/bin/sh
# users.sh
# Prepares the image for any user. SSH_USER, SSH_UID and SSH_GID are one that it knows by name.
set -eu

user=${SSH_USER:-openmpi} uid=${SSH_UID:-1000} gid=${SSH_GID:-1000}

# Where sshd's unprivileged half lives; the root file system may be read-only.
install --directory --mode 755 /run/sshd
install --directory --mode 1777 /workspace
# Also nobody may be the user of a pod; sshd starts its commands by this shell, in this directory.
sed -i 's#^\(nobody:.*\):[^:]*:[^:]*$#\1:/tmp:/bin/sh#' /etc/passwd
echo "$user:x:$gid:" >> /etc/group
echo "$user:x:$uid:$gid:$user:/tmp:/bin/bash" >> /etc/passwd
echo nonroot:x:65532: >> /etc/group
echo nonroot:x:65532:65532:nonroot:/tmp:/bin/bash >> /etc/passwd
# ssh and sshd refuse users that the name service does not know. Some clusters assign a user to each
# namespace: /start_sshd.sh writes its entry there, since /tmp is what every container can write.
sed -i 's/^passwd:.*/passwd: files extrausers/' /etc/nsswitch.conf
rm -rf /var/lib/extrausers
ln -s /tmp/openmpi-ssh /var/lib/extrausers
