"""ChainerJob: the API."""
