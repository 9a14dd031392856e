"""`/etc/hosts` of pods: one hosts file per namespace, shared by all its pods.

The file mirrors the cluster's DNS: pods by their bare name and as `pod.subdomain…`, Services by
their name with and without namespace and domain. The directory of the file is mounted in each pod
of the namespace, so that a new version, put in place by a rename, becomes visible atomically.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from traincrew.engine.observability import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from traincrew.engine.objects import AnyObject

__all__ = ["HostsFiles", "PodName", "ServiceName", "hosts_text", "pod_host_name", "service_names"]

DOMAIN = "svc.cluster.local"
_SERVICE_LABEL = "kubernetes.io/service-name"
# The first lines are the kubelet's: programs recognize the file by them.
_HEAD = "# Kubernetes-managed hosts file{}.\n127.0.0.1\tlocalhost\n::1\tlocalhost\n"


class PodName(Struct, frozen=True):
    """A pod that has an address."""

    namespace: str
    address: str
    hostname: str
    subdomain: str = ""
    aliases: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Its own `hostAliases`: address, names."""
    host_network: bool = False

    @classmethod
    def of(cls, namespace: str, name: str, spec: Mapping[str, Any], address: str) -> PodName:
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
        )

    @property
    def has_own_file(self) -> bool:
        """Whether it cannot share the file of its namespace."""
        return bool(self.aliases) or self.host_network


class ServiceName(Struct, frozen=True):
    """A Service and the addresses that its name resolves to."""

    namespace: str
    name: str
    addresses: tuple[str, ...]


def pod_host_name(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> tuple[str, str]:
    """Return (host name, fully qualified domain name or "") of a pod."""
    hostname = str(spec.get("hostname") or metadata.get("name") or "")[:63].rstrip("-.")
    if subdomain := spec.get("subdomain"):
        return hostname, f"{hostname}.{subdomain}.{metadata.get('namespace', '')}.{DOMAIN}"
    return hostname, ""


def service_names(services: Iterable[AnyObject], slices: Iterable[AnyObject]) -> list[ServiceName]:
    """Resolve the names of Services: to the cluster IP, or to the ready pods of headless ones."""
    by_service: dict[tuple[str, str], list[str]] = {}
    for endpoint_slice in slices:
        name = endpoint_slice.metadata.labels.get(_SERVICE_LABEL, "")
        addresses = by_service.setdefault((endpoint_slice.metadata.namespace, name), [])
        for endpoint in endpoint_slice.endpoints:
            if (endpoint.get("conditions") or {}).get("ready", True):
                addresses += endpoint.get("addresses") or []
    names = []
    for service in services:
        namespace, name = service.metadata.namespace, service.metadata.name
        address = service.spec.get("clusterIP") or ""
        if address == "None":
            addresses = by_service.get((namespace, name), [])
        else:
            addresses = [address] if address else []
        if addresses:
            unique = tuple(dict.fromkeys(addresses))
            names.append(ServiceName(namespace, name, unique))
    return names


def hosts_text(
    namespace: str,
    pods: Iterable[PodName],
    services: Iterable[ServiceName],
    own: PodName | None = None,
) -> str:
    """Return the hosts file of a namespace, or of one pod that needs its own."""
    lines = [_HEAD.format(" (host network)" if own is not None and own.host_network else "")]
    for pod in pods:
        if pod.namespace == namespace:
            names = []
            if pod.subdomain:
                names = _name_forms(f"{pod.hostname}.{pod.subdomain}", pod.namespace)
            lines.append(_line(pod.address, [*names, pod.hostname]))
        elif pod.subdomain:
            names = _name_forms(f"{pod.hostname}.{pod.subdomain}", pod.namespace)[:-1]
            lines.append(_line(pod.address, names))
    for service in services:
        names = _name_forms(service.name, service.namespace)
        if service.namespace != namespace:
            names = names[:-1]
        lines += [_line(address, names) for address in service.addresses]
    if own is not None and own.aliases:
        lines.append("\n# Entries added by HostAliases.\n")
        lines += [_line(address, names) for address, names in own.aliases]
    return "".join(lines)


def _line(address: str, names: Iterable[str]) -> str:
    return "\t".join([address, *names]) + "\n"


def _name_forms(name: str, namespace: str) -> list[str]:
    """Return the forms of a name that clients in the namespace may use, the canonical one first."""
    return [
        f"{name}.{namespace}.{DOMAIN}",
        f"{name}.{namespace}.svc",
        f"{name}.{namespace}",
        name,
    ]


class HostsFiles:
    """The files of all namespaces, and of the pods that have their own.

    Args:
        directory: Holds `NAMESPACE/hosts` and `NAMESPACE/UID/hosts`.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._handlers: list[Callable[[], None]] = []
        self._pods: dict[str, PodName] = {}
        self._services: list[ServiceName] = []
        self._written: dict[Path, str] = {}
        self._settled = False
        self._log = get_logger(component="hosts")
        self.is_outdated = False
        """Whether a file could not be written, on a full disk for instance."""

    def add_pod(self, uid: str, pod: PodName) -> Path:
        """Publish a pod; return the directory of its file `hosts`.

        Raises:
            OSError: The file cannot be written; it can be tried again.
        """
        self._pods[uid] = pod
        for handler in self._handlers:
            handler()
        self._write()
        return self._place(uid, pod)

    def remove_pod(self, uid: str) -> None:
        """Unpublish a pod."""
        pod = self._pods.pop(uid, None)
        if pod is None:
            return
        if pod.has_own_file:
            place = self._place(uid, pod)
            self._written.pop(place / "hosts", None)
            with suppress(OSError):  # it was never written, or is left to the next start
                (place / "hosts").unlink(missing_ok=True)
                place.rmdir()
        for handler in self._handlers:
            handler()
        self.write()

    def pods(self) -> list[PodName]:
        """Return all published pods."""
        return list(self._pods.values())

    def on_pods(self, handler: Callable[[], None]) -> None:
        """Register a handler that is called whenever a pod was published or unpublished."""
        self._handlers.append(handler)

    def settle(self) -> None:
        """Drop names from before a restart; to be called when all pods are published again."""
        self._settled = True
        self.write()

    def set_services(self, services: list[ServiceName]) -> None:
        """Publish Services."""
        if services != self._services:
            self._services = services
            self.write()

    def write(self) -> None:
        """Write every file that has changed; see `is_outdated`."""
        try:
            self._write()
        except OSError as error:
            self.is_outdated = True
            self._log.warning("names of pods cannot be written", error=str(error))

    def _write(self) -> None:
        files: dict[Path, str] = {}
        for namespace in sorted({pod.namespace for pod in self._pods.values()}):
            files[self._directory / namespace / "hosts"] = hosts_text(
                namespace, self._pods.values(), self._services
            )
        for uid, pod in self._pods.items():
            if pod.has_own_file:
                files[self._place(uid, pod) / "hosts"] = hosts_text(
                    pod.namespace, self._pods.values(), self._services, pod
                )
        for path, current in files.items():
            text = current if self._settled else _with_old(path, current)
            if self._written.get(path) != text:
                path.parent.mkdir(parents=True, exist_ok=True)
                temporary = path.with_name(".hosts")
                temporary.write_text(text)
                temporary.replace(path)
                self._written[path] = text
        self.is_outdated = False

    def _place(self, uid: str, pod: PodName) -> Path:
        namespace = self._directory / pod.namespace
        return namespace / uid if pod.has_own_file else namespace


def _with_old(path: Path, text: str) -> str:
    """Return the new version extended by the lines that only the old one has."""
    try:
        old = path.read_text().splitlines(keepends=True)
    except OSError:
        return text
    known = set(text.splitlines(keepends=True))
    return text + "".join(line for line in old if line not in known)
