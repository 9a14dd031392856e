"""Suites on a real cluster."""
