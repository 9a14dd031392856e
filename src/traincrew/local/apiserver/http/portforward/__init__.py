"""Port forwarding: connects a client to ports of a pod, over SPDY/3.1 or websockets."""

from .serving import serve_portforward

__all__ = ["serve_portforward"]
