"""HTTP: from a connection to a verb, and from its result to a response.

Everything that deals with connections, headers, credentials and streams is here, and the documents
about the API itself: discovery, OpenAPI, version. No package below imports it.
"""
