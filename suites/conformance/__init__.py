"""Upstream's own conformance tests, run unmodified against the embedded cluster."""
