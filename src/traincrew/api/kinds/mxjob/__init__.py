"""MxJob: the API."""
