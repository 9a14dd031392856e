"""Gangs: pods that a scheduler of the cluster places together or not at all.

`traincrew.plan.shared.schedulers` says what the group object of each scheduler looks like,
`membership` how a pod belongs to it; `groups` decides what the group of a job must be.
"""
