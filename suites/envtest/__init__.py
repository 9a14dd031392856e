"""Suites and programs of others that use the API server alone."""
