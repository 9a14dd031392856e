"""Shared by the fault suites on a real cluster: jobs, a proxy that can be cut, operators."""
