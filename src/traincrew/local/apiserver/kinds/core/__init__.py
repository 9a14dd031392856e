"""The kinds of the core API group."""
