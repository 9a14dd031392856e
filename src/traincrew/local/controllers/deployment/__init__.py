"""Deployments and ReplicaSets: `plan` and `replicas` decide, `controller` reads and writes."""
