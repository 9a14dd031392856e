"""Level-triggered controller runtime over any Kubernetes API.

`config` and `client` reach a server, `cache` keeps copies of its objects, `controller` reconciles
them, `election` says which process may. Import from these packages; `testing` simulates all of it.
"""
