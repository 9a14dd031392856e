"""Values of the Kubernetes API, and how they are parsed, checked and printed.

Times, durations, names, selectors, paths, causes, errors, JSON and YAML. Every package may use it;
it knows no rules of kinds and imports nothing else of the API server.
"""
