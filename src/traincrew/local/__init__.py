"""The embedded cluster: a Kubernetes API, its controllers, a scheduler and a node in one process.

`cluster.LocalCluster` is the entry point. The parts communicate through the API, as on any
cluster; they know the engine, and must never know a training kind.
"""
