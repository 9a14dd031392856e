"""Listening ports: every port of the product is served by the classes of this package.

Whoever reaches a port can connect, so each has `Limits` of number, time and size that hold until a
client has authenticated. `docs/design/security.md` lists them; a test compares that list with the
code, and fails for a port that is opened elsewhere.

Import from the modules: `traincrew.engine.serving.http` imports an HTTP server, the others do not.
"""
