"""Addresses and names: of pods, of Services, and the cluster's DNS.

The node publishes pods and Services here; hosts files, DNS server and proxy serve them. Names
and messages are pure. Nothing here reads the API: callers pass the objects.
"""
