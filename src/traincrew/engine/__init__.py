"""Level-triggered controller runtime over any Kubernetes API."""
