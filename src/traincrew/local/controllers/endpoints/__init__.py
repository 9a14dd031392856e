"""Endpoints and EndpointSlices of Services: `plan` decides, `controller` reads and writes."""
