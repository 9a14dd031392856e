"""Commands in containers: exec and attach, over websockets or SPDY/3.1."""

from .serving import serve_attach, serve_exec

__all__ = ["serve_attach", "serve_exec"]
