"""The OpenAPI documents that the server publishes, version 2 and version 3.

kubectl reads them for ``explain``, ``create`` and ``apply``; they are generated from the registry.
"""
