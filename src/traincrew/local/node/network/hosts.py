"""`/etc/hosts` of pods, as the kubelet writes it: a pod's own name, and its `hostAliases`.

All other names are the DNS server's business (`zone.py`). A pod that should query it and cannot
reach it gets the server's answers in its hosts file instead: the same names, no others.

The directory of a pod's file is mounted in its containers, so that a new version, put in place by a
rename, becomes visible atomically.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from traincrew.engine.observability import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["HostsFiles", "PodName", "hosts_text", "kernel_host_name", "pod_host_name"]

DOMAIN = "cluster.local"
SERVICES = f"svc.{DOMAIN}"
_LONGEST_HOSTNAME = 64
_MACHINE_FILE = Path("/etc/hosts")
# The text is the kubelet's (`pkg/kubelet/kubelet_pods.go`): programs recognize the file by it.
_MANAGED = "# Kubernetes-managed hosts file.\n"
_MANAGED_HOST = "# Kubernetes-managed hosts file (host network).\n"
_LOCAL = (
    "127.0.0.1\tlocalhost\n"
    "::1\tlocalhost ip6-localhost ip6-loopback\n"
    "fe00::0\tip6-localnet\n"
    "fe00::0\tip6-mcastprefix\n"
    "fe00::1\tip6-allnodes\n"
    "fe00::2\tip6-allrouters\n"
)


class PodName(Struct, frozen=True):
    """A pod that has an address.

    Attributes:
        namespace: of the pod.
        address: of the pod.
        hostname: without a domain.
        subdomain: `spec.subdomain`, or empty.
        aliases: its `hostAliases`: address, names.
        host_network: whether it has the network of its node.
        mirrors: whether its file has the cluster's names, because it cannot reach the DNS server.
    """

    namespace: str
    address: str
    hostname: str
    subdomain: str = ""
    aliases: tuple[tuple[str, tuple[str, ...]], ...] = ()
    host_network: bool = False
    mirrors: bool = False

    @classmethod
    def of(
        cls, namespace: str, name: str, spec: Mapping[str, Any], address: str, *, mirrors: bool
    ) -> PodName:
        """Return the names that a pod's specification gives it."""
        hostname, _ = pod_host_name({"name": name}, {"hostname": spec.get("hostname")})
        aliases = tuple(
            (alias["ip"], tuple(alias.get("hostnames") or ()))
            for alias in spec.get("hostAliases") or ()
        )
        return cls(
            namespace,
            address,
            hostname,
            spec.get("subdomain") or "",
            aliases,
            host_network=bool(spec.get("hostNetwork")),
            mirrors=mirrors,
        )


def pod_host_name(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> tuple[str, str]:
    """Return (host name, fully qualified domain name or "") of a pod."""
    hostname = str(spec.get("hostname") or metadata.get("name") or "")[:63].rstrip("-.")
    if subdomain := spec.get("subdomain"):
        return hostname, f"{hostname}.{subdomain}.{metadata.get('namespace', '')}.{SERVICES}"
    return hostname, ""


def kernel_host_name(
    metadata: Mapping[str, Any], spec: Mapping[str, Any], node: str
) -> tuple[str, str]:
    """Return what `hostname` prints in a pod, and why the pod cannot start: "" if it can.

    A pod with `hostNetwork` has the name of its node. The message is the kubelet's.
    """
    if spec.get("hostNetwork"):
        return node, ""
    hostname, domain = pod_host_name(metadata, spec)
    if not spec.get("setHostnameAsFQDN") or not domain:
        return hostname, ""
    if len(domain) > _LONGEST_HOSTNAME:
        return hostname, (
            "Failed to create pod sandbox: failed to construct FQDN from pod hostname and cluster "
            f"domain, FQDN {domain} is too long ({_LONGEST_HOSTNAME} characters is the max, "
            f"{len(domain)} characters requested)"
        )
    return domain, ""


def hosts_text(pod: PodName, names: Mapping[str, Iterable[str]], machine: str = "") -> str:
    """Return a pod's hosts file.

    Args:
        pod: The pod.
        names: Addresses of the cluster's names, for a pod that `mirrors` them.
        machine: The machine's own file, which a pod with `hostNetwork` gets.
    """
    if pod.host_network:
        lines = [_MANAGED_HOST, machine]
        if machine and not machine.endswith("\n"):
            lines.append("\n")
    else:
        own = [pod.hostname]
        if pod.subdomain:
            own.insert(0, f"{pod.hostname}.{pod.subdomain}.{pod.namespace}.{SERVICES}")
        lines = [_MANAGED, _LOCAL, _line(pod.address, own)]
    if pod.aliases:
        lines.append("\n# Entries added by HostAliases.\n")
        lines += [_line(address, aliases) for address, aliases in pod.aliases]
    if pod.mirrors:
        lines += [
            _line(address, _host_names(name, pod.namespace))
            for name, addresses in names.items()
            for address in addresses
        ]
    return "".join(lines)


def _host_names(name: str, namespace: str) -> list[str]:
    """Return a name and what is short for it in a namespace: without one of the search domains."""
    forms = [name]
    for domain in (DOMAIN, SERVICES, f"{namespace}.{SERVICES}"):
        short = name.removesuffix(f".{domain}")
        if short != name:
            forms.append(short)
    return forms


def _line(address: str, names: Iterable[str]) -> str:
    return "\t".join([address, *names]) + "\n"


class HostsFiles:
    """The hosts files of all pods.

    Args:
        directory: Holds `NAMESPACE/UID/hosts`.

    Attributes:
        names: Returns the addresses of the cluster's names, for pods that mirror them.
        is_outdated: Whether a file could not be written, on a full disk for instance.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._pods: dict[str, PodName] = {}
        self.names: Callable[[], Mapping[str, Iterable[str]]] = dict
        self._written: dict[Path, str] = {}
        self._settled = False
        self.is_outdated = False
        self._log = get_logger(component="hosts")

    def add_pod(self, uid: str, pod: PodName) -> Path:
        """Write a pod's file `hosts`; return its directory.

        Raises:
            OSError: The file cannot be written; it can be tried again.
        """
        self._pods[uid] = pod
        self._write(uid, pod)
        return self._place(uid, pod)

    def remove_pod(self, uid: str) -> None:
        """Delete a pod's file."""
        pod = self._pods.pop(uid, None)
        if pod is None:
            return
        place = self._place(uid, pod)
        self._written.pop(place / "hosts", None)
        with suppress(OSError):  # it was never written
            for name in ("hosts", ".hosts"):
                (place / name).unlink(missing_ok=True)
            place.rmdir()
        with suppress(OSError):  # other pods of the namespace have theirs
            place.parent.rmdir()

    def settle(self) -> None:
        """Drop names from before a restart; to be called when the names are complete again."""
        self._settled = True
        self.update()

    def update(self) -> None:
        """Write the files that mirror the cluster's names: these may have changed.

        See `is_outdated`.
        """
        self.is_outdated = False
        try:
            for uid, pod in self._pods.items():
                if pod.mirrors:
                    self._write(uid, pod)
        except OSError as error:
            self.is_outdated = True
            self._log.warning("names of pods cannot be written", error=str(error))

    def _write(self, uid: str, pod: PodName) -> None:
        path = self._place(uid, pod) / "hosts"
        text = hosts_text(
            pod,
            self.names() if pod.mirrors else {},
            _machine_file() if pod.host_network else "",
        )
        if pod.mirrors and not self._settled:
            text = _with_old(path, text)
        if self._written.get(path) != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(".hosts")
            temporary.write_text(text)
            temporary.replace(path)
            self._written[path] = text

    def _place(self, uid: str, pod: PodName) -> Path:
        return self._directory / pod.namespace / uid


def _machine_file() -> str:
    try:
        return _MACHINE_FILE.read_text(errors="replace")
    except OSError:
        return _LOCAL


def _with_old(path: Path, text: str) -> str:
    """Return the new version extended by the lines that only the old one has."""
    try:
        old = path.read_text().splitlines(keepends=True)
    except OSError:
        return text
    known = set(text.splitlines(keepends=True))
    return text + "".join(line for line in old if line not in known)
