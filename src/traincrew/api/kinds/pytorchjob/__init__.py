"""PyTorchJob: the API."""
