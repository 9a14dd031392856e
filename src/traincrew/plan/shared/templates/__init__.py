"""What the pod templates of all kinds are given: settings for accelerators, Open MPI, mounts."""
