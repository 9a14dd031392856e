"""Sandboxes: containers as processes with their own file system, process tree and host name.

This package runs in a process of its own (the fork server, see `server`), started as
`python -I -S DIRECTORY`, so its modules use the standard library only, import little, and refer to
one another by relative imports. The node's end is `traincrew.local.node.launcher`.
"""
