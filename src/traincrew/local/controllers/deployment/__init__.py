"""Deployments: `plan` decides, `controller` reads and writes."""
