"""The kinds of the API group `apps`."""
