"""The kinds of the API group `rbac.authorization.k8s.io`."""
