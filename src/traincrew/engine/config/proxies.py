"""Which proxy the environment names for an address: HTTP_PROXY, HTTPS_PROXY and NO_PROXY."""

from __future__ import annotations

import ipaddress

__all__ = ["environment_proxy", "is_loopback"]


def environment_proxy(scheme: str, host: str) -> str | None:
    """Return the URL of the proxy for requests to a host; none for loopback.

    Args:
        scheme: ``http`` or ``https``.
        host: Name or address, without a port.
    """
    if is_loopback(host):
        return None
    import urllib.request  # 20 ms that most starts do not need

    proxies = urllib.request.getproxies_environment()
    proxy = proxies.get(scheme)
    if proxy is None or _bypasses_proxy(host, proxies.get("no", "")):
        return None
    if urllib.request.proxy_bypass_environment(host, proxies):  # type: ignore[attr-defined]
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def is_loopback(host: str) -> bool:
    """Return whether a name or address is one of this machine's loopback."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _bypasses_proxy(host: str, no_proxy: str) -> bool:
    """Return whether ``NO_PROXY`` has a network in CIDR notation that contains the host."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    for item in no_proxy.split(","):
        try:
            if "/" in item and address in ipaddress.ip_network(item.strip(), strict=False):
                return True
        except ValueError:
            continue
    return False
