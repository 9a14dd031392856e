"""MPIJob: the API."""
