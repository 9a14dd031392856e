"""Pods that a job creates itself, each with a Service of the same name, as kubeflow/common did.

TorchElastic's controller and training-operator v1 are built on kubeflow/common, so names of
children, restart policies, counts and events of their kinds are the same.
"""
