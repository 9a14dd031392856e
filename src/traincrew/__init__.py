"""Run distributed training jobs from their Kubernetes manifest, with or without a cluster."""
