"""Container images on a terminal."""
