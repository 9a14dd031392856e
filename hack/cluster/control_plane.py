"""The control plane: etcd, API server, controller manager, scheduler and DNS on one address."""

from __future__ import annotations

import json
import ssl
import urllib.request
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hack.cluster import binaries, gangs
from hack.cluster.certificates import Authority, Pair, service_account_key, write_kubeconfig
from hack.cluster.network import inside
from hack.cluster.processes import Process

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from hack.cluster.network import Network

PORT = 6443
DOMAIN = "cluster.local"
# In the order in which they are started; stopped in reverse.
COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "coredns")
# Nodes are marked unreachable after this time, and their pods evicted after the toleration.
# Kubernetes' own values are 50 s and 300 s: too slow for tests that wait for them.
NODE_MISSED_SECONDS = 8
NODE_TOLERATION_SECONDS = 8
_LOCAL = ssl.create_default_context()
_LOCAL.check_hostname = False
_LOCAL.verify_mode = ssl.CERT_NONE


@dataclass
class ControlPlane:
    """The configuration files and command lines of the components.

    Args:
        directory: The cluster's directory.
        network: Its network.
        dns: Whether CoreDNS runs; a control plane without nodes does not need it.
        extra: Arguments to add, by component; they take precedence.
        release: Of Kubernetes: a key of `binaries.RELEASES`.
        engine: Its scheduler of gangs, one of `gangs.ENGINES`; empty for none.
    """

    directory: Path
    network: Network
    dns: bool = True
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)
    release: str = "1.36"
    engine: str = ""

    @property
    def url(self) -> str:
        """The URL of the API server."""
        return f"https://{self.network.address}:{PORT}"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.directory / "kubeconfig"

    @property
    def audit_log(self) -> Path:
        """JSON lines, level Metadata."""
        return self.directory / "logs" / "audit.log"

    @property
    def certificates(self) -> Path:
        """The directory of certificates and keys."""
        return self.directory / "certificates"

    def process(self, name: str) -> Process:
        """Return the process of a component."""
        return Process(name, self.directory / "processes", self.directory / "logs" / f"{name}.log")

    def components(self) -> tuple[str, ...]:
        """Return the components that run, in starting order."""
        return (COMPONENTS if self.dns else COMPONENTS[:-1]) + self.plugins()

    def plugins(self) -> tuple[str, ...]:
        """Return those that are started when their resources are defined."""
        return gangs.PROGRAMS[self.engine]

    # -- files ----------------------------------------------------------------------------

    def write(self, authority: Authority) -> None:
        """Write certificates, kubeconfigs and configuration files."""
        first_service = f"{self.network.service_range.rpartition('.')[0]}.1"
        authority.server(
            "kube-apiserver",
            [self.network.address, "127.0.0.1", first_service],
            ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"],
        )
        authority.client("kubelet-client", "kube-apiserver", "system:masters")
        authority.client("front-proxy-client", "front-proxy-client")
        service_account_key(self.certificates)
        write_kubeconfig(
            self.kubeconfig,
            self.url,
            authority.certificate,
            authority.client("admin", "admin", "system:masters"),
        )
        for name, user, group in (
            ("kube-controller-manager", "system:kube-controller-manager", ""),
            ("kube-scheduler", "system:kube-scheduler", ""),
            # DNS and proxies get their permissions by group; their roles are not tested.
            ("coredns", "coredns", "system:masters"),
            ("kube-proxy", "system:kube-proxy", ""),
            *((name, name, "system:masters") for name in self.plugins()),
        ):
            self.write_client(authority, name, user, group)
        if self.engine == gangs.COSCHEDULING:
            file = self.directory / f"{gangs.SCHEDULER}.kubeconfig"
            self._json(f"{gangs.SCHEDULER}.json", gangs.configuration(file))
        self._json("audit-policy.json", {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [{"level": "Metadata"}],
        })  # fmt: skip
        (self.directory / "Corefile").write_text(
            ".:53 {\n"
            f"  bind {self.network.address}\n"
            f"  kubernetes {DOMAIN} in-addr.arpa {{\n"
            f"    kubeconfig {self.directory / 'coredns.kubeconfig'}\n"
            "    pods insecure\n"
            "    ttl 1\n"
            "  }\n"
            "  errors\n"
            "}\n"
        )

    def write_client(self, authority: Authority, name: str, user: str, group: str = "") -> Path:
        """Write ``<name>.kubeconfig`` for a user."""
        pair = authority.client(name, user, group)
        path = self.directory / f"{name}.kubeconfig"
        return write_kubeconfig(path, self.url, authority.certificate, pair)

    def _json(self, name: str, document: object) -> Path:
        path = self.directory / name
        path.write_text(json.dumps(document, indent=1))
        return path

    # -- commands -------------------------------------------------------------------------

    def start(self, report: Callable[[str], None]) -> None:
        """Start every component; return when the API server is ready.

        Raises:
            NotReady: etcd or the API server did not become ready.
        """
        (self.directory / "logs").mkdir(parents=True, exist_ok=True)
        for name in self.components():
            if name in self.plugins():
                continue
            self.process(name).start(self.command(name))
            if name == "etcd":
                self.process(name).wait(self._etcd_ready, 120)
            if name == "kube-apiserver":
                self.wait()
                report("API server ready")

    def start_plugins(self) -> None:
        """Start the components whose resources must be defined before."""
        for name in self.plugins():
            self.process(name).start(self.command(name))

    def wait(self, seconds: float = 180) -> None:
        """Wait until the API server is ready.

        Raises:
            NotReady: It ended, or took longer than this many seconds.
        """
        self.process("kube-apiserver").wait(self.ready, seconds)

    def ready(self) -> bool:
        """Return whether the API server reports that it is ready."""
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=2, context=_LOCAL) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def command(self, name: str) -> list[str]:
        """Return the command line of a component, including its network namespace."""
        arguments = {
            "etcd": self._etcd,
            "kube-apiserver": self._api_server,
            "kube-controller-manager": self._controller_manager,
            "kube-scheduler": self._scheduler,
            "coredns": self._coredns,
        }
        is_plugin = name in self.plugins()
        words = gangs.command(name, self.directory) if is_plugin else arguments[name]()
        program = binaries.path(binaries.of_release(name, self.release))
        gated = gangs.arguments(self.engine, self.release).get(name, ())
        variables = gangs.environment(name, self.directory)
        before = ["env", *(f"{key}={value}" for key, value in variables.items())]
        return inside(
            self.network.control_plane,
            [
                *(before if variables else ()),
                str(program),
                *words,
                *gated,
                *self.extra.get(name, ()),
            ],
        )

    def _etcd(self) -> list[str]:
        return [
            "--name=etcd",
            f"--data-dir={self.directory / 'etcd'}",
            # Only this cluster uses its network namespace.
            "--listen-client-urls=http://0.0.0.0:2379",
            "--advertise-client-urls=http://127.0.0.1:2379",
            "--listen-peer-urls=http://127.0.0.1:2380",
            "--unsafe-no-fsync",
            "--log-level=warn",
            "--quota-backend-bytes=8589934592",
        ]

    def _api_server(self) -> list[str]:
        pair = _pair(self.certificates, "kube-apiserver")
        kubelet = _pair(self.certificates, "kubelet-client")
        proxy = _pair(self.certificates, "front-proxy-client")
        return [
            "--etcd-servers=http://127.0.0.1:2379",
            f"--bind-address={self.network.address}",
            f"--advertise-address={self.network.address}",
            f"--secure-port={PORT}",
            f"--tls-cert-file={pair.certificate}",
            f"--tls-private-key-file={pair.key}",
            f"--client-ca-file={self.certificates / 'ca.crt'}",
            # With these, aggregated API servers such as Kueue's authenticate the user.
            f"--requestheader-client-ca-file={self.certificates / 'ca.crt'}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={proxy.certificate}",
            f"--proxy-client-key-file={proxy.key}",
            # They, and webhooks, are asked at the addresses of pods: only nodes know Services.
            "--enable-aggregator-routing=true",
            "--authorization-mode=Node,RBAC",
            # Only this plugin checks the `finalizers` subresources that our role grants.
            "--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement",
            "--allow-privileged=true",
            "--anonymous-auth=true",
            f"--service-cluster-ip-range={self.network.service_range}",
            f"--service-account-issuer=https://kubernetes.default.svc.{DOMAIN}",
            f"--service-account-signing-key-file={self.certificates / 'service-account.key'}",
            f"--service-account-key-file={self.certificates / 'service-account.pub'}",
            "--kubelet-preferred-address-types=InternalIP",
            f"--kubelet-client-certificate={kubelet.certificate}",
            f"--kubelet-client-key={kubelet.key}",
            f"--default-not-ready-toleration-seconds={NODE_TOLERATION_SECONDS}",
            f"--default-unreachable-toleration-seconds={NODE_TOLERATION_SECONDS}",
            f"--audit-policy-file={self.directory / 'audit-policy.json'}",
            f"--audit-log-path={self.audit_log}",
            "--audit-log-mode=blocking-strict",
            "--profiling=false",
        ]

    def _controller_manager(self) -> list[str]:
        return [
            f"--kubeconfig={self.directory / 'kube-controller-manager.kubeconfig'}",
            "--use-service-account-credentials",
            "--leader-elect=false",
            f"--root-ca-file={self.certificates / 'ca.crt'}",
            f"--service-account-private-key-file={self.certificates / 'service-account.key'}",
            "--node-monitor-period=1s",
            f"--node-monitor-grace-period={NODE_MISSED_SECONDS}s",
            "--bind-address=127.0.0.1",
        ]

    def _scheduler(self) -> list[str]:
        return [
            f"--kubeconfig={self.directory / 'kube-scheduler.kubeconfig'}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
        ]

    def _coredns(self) -> list[str]:
        return ["-conf", str(self.directory / "Corefile")]

    def _etcd_ready(self) -> bool:
        url = f"http://{self.network.address}:2379/health"
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


def _pair(directory: Path, name: str) -> Pair:
    return Pair(directory / f"{name}.crt", directory / f"{name}.key")
