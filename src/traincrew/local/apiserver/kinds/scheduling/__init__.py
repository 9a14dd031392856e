"""The kinds of the API group `scheduling.k8s.io`."""
