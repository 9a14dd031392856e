"""Reads jobs on any cluster: chooses the cluster, lists, watches, follows logs, names rights.

Feeds the view model of `traincrew.cli.jobview` and the lines of `traincrew.cli.display`. Nothing
here writes to a cluster.
"""
