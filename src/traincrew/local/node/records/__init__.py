"""Observed state of pods and its reports to the API: pod statuses, Node objects, Leases.

Pods change their record and notify the reporter; the status, a pure function of specification and
record, is written by the reporter. Nothing here starts, signals or inspects a process.
"""
