"""The kinds of the API group `policy`."""
