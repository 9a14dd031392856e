"""Decisions about training jobs, as pure functions of what is observed.

The operator's reconciler calls the ``plan`` function of a kind with an `Observed` (the job and its
children), the time and the operator's options, and carries out the `Plan` it returns. Nothing here
does I/O, reads a clock or knows of clients, caches or queues; a kind never knows another kind.
"""
