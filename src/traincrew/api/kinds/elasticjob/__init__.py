"""ElasticJob: the API."""
