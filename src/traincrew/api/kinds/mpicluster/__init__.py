"""MPICluster: the API."""
