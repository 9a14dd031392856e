"""The API server of the embedded cluster: the Kubernetes API over HTTPS on the loopback interface.

Unmodified kubectl, Helm and client libraries talk to it, and so do the cluster's own controllers,
scheduler and node; it knows none of them, and asks the node for logs, commands and ports only.
Its packages stand on seven floors, and imports run downwards only: see docs/design/apiserver.md.
"""
