"""What a server says of itself, in paths that are no resources; `serving` has the paths."""
