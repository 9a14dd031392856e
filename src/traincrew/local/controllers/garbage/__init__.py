"""Deletion that follows from other deletions: owners and dependents, namespaces and content."""
