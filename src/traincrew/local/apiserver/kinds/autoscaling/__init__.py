"""The kinds of the API group `autoscaling`."""
