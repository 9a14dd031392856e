"""JobSet: the API."""
