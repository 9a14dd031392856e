"""Queues: jobs that run when Kueue admits them.

A job with the label of a queue has a Workload. `workloads` says what it looks like and how its
status is written, `podsets` what the job asks for, `admission` what an admission adds to pods;
`job` decides what holds a job, and `apply` adds the admission to what a plan creates.
"""
