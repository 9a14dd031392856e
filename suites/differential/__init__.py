"""Random requests to the embedded API server and to a real one, which must answer the same."""
