"""The kinds of the API group `events.k8s.io`."""
