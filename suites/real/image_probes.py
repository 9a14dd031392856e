"""What a program sees in a container: a script that prints it, and pods that run the script."""

from __future__ import annotations

from typing import Any

__all__ = ["PODS", "SCRIPT", "answers"]

SCRIPT = r"""
p() { name=$1; shift; printf '%s= ' "$name"; "$@" 2>&1 </dev/null | tr '\n' '|'; echo; }
f() { stat -c '%A %u:%g %n' "$@"; }
p user id
p groups id -G
p umask sh -c umask
p directory pwd
p home printenv HOME
p path printenv PATH
p variable-of-the-pod printenv MODE
p variable-of-the-image printenv OMPI_MCA_btl
p names-of-variables sh -c 'env | cut -d= -f1 | grep -v KUBERNETES | sort'
p arguments sh -c 'tr "\0" " " < /proc/1/cmdline | cut -c1-20'
p process sh -c 'cut -d" " -f1,4,5,6 /proc/1/stat; ls -d /proc/[0-9]* | head -1'
p host-name hostname
p etc-hostname cat /etc/hostname
p etc-hosts sh -c 'grep -v "^#" /etc/hosts | grep -c .'
p etc-passwd sh -c 'md5sum < /etc/passwd'
p etc-group sh -c 'md5sum < /etc/group'
p search-domains sh -c 'grep ^search /etc/resolv.conf | cut -d" " -f2-4'
p resolver-options sh -c 'grep ^options /etc/resolv.conf'
p service getent hosts kubernetes.default.svc.nothing
p root ls -1 /
p root-mode f / /bin /etc /usr/bin/env /root /tmp /var/tmp /proc /sys /dev
p root-write sh -c 'echo x > /probe && cat /probe && rm /probe'
p etc-write sh -c 'echo x > /etc/probe && cat /etc/probe && rm /etc/probe'
p replace sh -c 'rm /etc/debian_version && ls /etc/debian_version'
p tmp-write sh -c 'echo x > /tmp/probe && stat -c "%a %u:%g" /tmp/probe && rm /tmp/probe'
p home-write sh -c 'touch "$HOME/probe" && rm "$HOME/probe"'
p dev ls -1 /dev
p dev-links readlink /dev/fd /dev/stdin /dev/stdout /dev/stderr /dev/ptmx /dev/core
p dev-null stat -c '%A %t:%T %u:%g' /dev/null /dev/zero /dev/full /dev/random /dev/urandom
p dev-use sh -c 'head -c4 /dev/zero | wc -c; echo x > /dev/full; head -c2 /dev/urandom | wc -c'
p dev-write sh -c 'touch /dev/probe && rm /dev/probe'
p shm sh -c 'f() { stat -c "%A" "$@"; }; f /dev/shm; echo x > /dev/shm/probe && rm /dev/shm/probe'
p mqueue stat -c '%A' /dev/mqueue
p pts ls -1 /dev/pts
p tty tty
p kcore sh -c 'head -c1 /proc/kcore | wc -c'
p keys sh -c 'wc -c < /proc/keys'
p timers sh -c 'wc -c < /proc/timer_list'
p firmware sh -c 'ls /sys/firmware | wc -l'
p acpi sh -c 'ls /proc/acpi | wc -l'
p sysctl sh -c 'echo x > /proc/sys/kernel/core_pattern'
p sysrq sh -c 'echo x > /proc/sysrq-trigger'
p sys sh -c 'echo x > /sys/kernel/profiling'
p capabilities grep -E 'Cap(Inh|Prm|Eff|Bnd|Amb)' /proc/self/status
p no-new-privileges grep NoNewPrivs /proc/self/status
p signals grep -E 'Sig(Blk|Ign)' /proc/self/status
p open-files sh -c 'ls /proc/self/fd | wc -l'
p limit-of-files sh -c 'ulimit -Hc; ulimit -s'
p owner sh -c 'touch /tmp/p; chown 1000:1000 /tmp/p && stat -c %u:%g /tmp/p; rm /tmp/p'
p owner-of-others sh -c 'chmod 700 /etc/passwd && stat -c %a /etc/passwd'
p special-mode sh -c 'cp /bin/true /tmp/s && chmod 4755 /tmp/s && stat -c %a /tmp/s; rm -f /tmp/s'
p mount mount -t tmpfs none /mnt
p chroot chroot / true
p user-change python3 -c 'import os; os.setuid(1234); print(os.getuid())'
p group-change python3 -c 'import os; os.setgroups([7, 8]); print(os.getgroups())'
p host-name-change hostname other
p time-zone date +%Z
p locale sh -c 'locale 2>/dev/null | grep LANG='
p encoding python3 -c 'import sys; print(sys.getfilesystemencoding())'
p not-there sh -c '/no/program; echo $?; /etc/passwd; echo $?; sh -c "exit 7"; echo $?'
p killed sh -c 'sh -c "kill -9 \$\$"; echo $?'
p volume sh -c 'f() { stat -c "%A %u:%g" "$@"; }; f /scratch; touch /scratch/x && f /scratch/x'
p token ls -1 /var/run/secrets/kubernetes.io/serviceaccount
p termination-log sh -c 'echo done > /dev/termination-log && wc -c < /dev/termination-log'
"""
"""Prints a line for each probe: its name, `=`, and what the command said, lines joined by `|`."""


def _pod(**settings: Any) -> dict[str, Any]:
    security = settings.pop("security", {})
    container = {
        "name": "main",
        "image": "traincrew/chainermn:0.1.0",
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", SCRIPT],
        "env": [{"name": "MODE", "value": "pod"}],
        "securityContext": security,
        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
        **settings,
    }
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "enableServiceLinks": False,
        "containers": [container],
        "volumes": [{"name": "scratch", "emptyDir": {}}],
    }


PODS = {
    "as-it-is": _pod(),
    "root": _pod(security={"runAsUser": 0}, workingDir="/new/directory"),
    "unknown-user": _pod(security={"runAsUser": 4321, "runAsGroup": 99}),
    "restricted": _pod(
        security={
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
    ),
    "terminal": _pod(tty=True, stdin=True, security={"runAsUser": 0}),
}
"""Specifications of pods, by name."""


def answers(log: str) -> dict[str, str]:
    """Return what each probe printed."""
    lines = (line.rstrip("\r").partition("= ") for line in log.splitlines() if "= " in line)
    return {name: said.replace("\r", "") for name, _, said in lines}
