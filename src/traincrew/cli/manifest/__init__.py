"""Reads and checks manifests; objects keep their position in a file, for messages.

Nothing here needs a running cluster; `served` determines which kinds it will serve.
"""
