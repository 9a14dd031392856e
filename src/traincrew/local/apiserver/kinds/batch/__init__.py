"""The kinds of the API group `batch`."""
