"""ReplicaSets and ReplicationControllers: a number of pods from one template."""
