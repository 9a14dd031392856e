"""Sandboxes: containers as processes with their own file system, process tree and host name.

This package runs in a process of its own (the fork server, see `server`), started as
`python -I -S DIRECTORY`, so its modules use the standard library only, import little, and use
relative imports. The client is `traincrew.local.node.runtime.forkserver`.
"""
