"""kubectl on the embedded cluster and on a real one: equal output, or a named difference."""
