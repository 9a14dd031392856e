"""A pod's `/etc/resolv.conf`, from its DNS policy and the machine's own file. Pure.

As in the kubelet (`pkg/kubelet/network/dns`): at most three servers, at most 32 domains of 2,048
characters together; a pod's `dnsConfig` is added to the result of its policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from traincrew.local.node.network.hosts import DOMAIN, SERVICES

__all__ = ["Resolver", "pod_resolver", "queries_cluster"]

Document = Mapping[str, Any]

_MAX_SERVERS = 3
_MAX_DOMAINS = 32
_MAX_DOMAINS_LENGTH = 2048
# A name with fewer dots is searched in the cluster's domains first.
_CLUSTER_OPTIONS = ("ndots:5",)


class Resolver(NamedTuple):
    """The content of a resolv.conf.

    Attributes:
        servers: addresses, in the order in which they are queried.
        domains: the search domains.
        options: "NAME" or "NAME:VALUE".
    """

    servers: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Resolver:
        """Parse a resolv.conf; unknown lines are ignored (resolv.conf(5))."""
        servers: list[str] = []
        domains: list[str] = []
        options: list[str] = []
        for line in text.splitlines():
            word, *values = line.partition("#")[0].partition(";")[0].split() or [""]
            if word == "nameserver" and values:
                servers.append(values[0])
            elif word in {"search", "domain"}:
                # The last one counts.
                domains = values
            elif word == "options":
                options += values
        return cls(_unique(servers), _unique(domains), _unique(options))

    def text(self) -> str:
        """Return the content of the file."""
        lines = []
        if self.domains:
            lines.append(f"search {' '.join(self.domains)}\n")
        lines += [f"nameserver {server}\n" for server in self.servers]
        if self.options:
            lines.append(f"options {' '.join(self.options)}\n")
        return "".join(lines)


def queries_cluster(spec: Document) -> bool:
    """Return whether a pod's `dnsPolicy` makes it query the cluster's DNS server."""
    policy = spec.get("dnsPolicy") or "ClusterFirst"
    if policy == "ClusterFirst":
        return not spec.get("hostNetwork")
    return bool(policy == "ClusterFirstWithHostNet")


def pod_resolver(spec: Document, namespace: str, server: str, machine: Resolver) -> Resolver | None:
    """Return a pod's resolver configuration; None for the machine's own file, unchanged.

    Args:
        spec: Of the pod.
        namespace: Of the pod.
        server: Address of the cluster's DNS server; empty where this pod cannot reach one.
        machine: The machine's.
    """
    config: Document = spec.get("dnsConfig") or {}
    if spec.get("dnsPolicy") == "None":
        base = Resolver()
    elif server and queries_cluster(spec):
        own = (f"{namespace}.{SERVICES}", SERVICES, DOMAIN)
        base = Resolver((server,), (*own, *machine.domains), _CLUSTER_OPTIONS)
    elif config:
        base = machine
    else:
        return None
    return _limited(
        Resolver(
            _unique((*base.servers, *(config.get("nameservers") or ()))),
            _unique((*base.domains, *(config.get("searches") or ()))),
            _merged(base.options, config.get("options") or ()),
        )
    )


def _merged(options: Iterable[str], more: Iterable[Document]) -> tuple[str, ...]:
    """Merge options; a pod's options replace those of the same name."""
    values = {name: value for name, _, value in (each.partition(":") for each in options)}
    values |= {str(each["name"]): str(each.get("value") or "") for each in more}
    return tuple(f"{name}:{value}" if value else name for name, value in values.items())


def _limited(resolver: Resolver) -> Resolver:
    domains: list[str] = []
    for domain in resolver.domains[:_MAX_DOMAINS]:
        if len(" ".join((*domains, domain))) > _MAX_DOMAINS_LENGTH:
            break
        domains.append(domain)
    return resolver._replace(servers=resolver.servers[:_MAX_SERVERS], domains=tuple(domains))


def _unique(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))
