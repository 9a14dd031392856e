"""Random requests to the embedded API server and a real one, whose responses must be equal."""
