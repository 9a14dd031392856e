"""The container runtime: starts and adopts instances, runs commands in them, reads logs.

Containers pass it a complete `ContainerProcess`; the API server's exec, attach and logs arrive
through `backend`. It knows instances of containers by their directories, and must not know pods,
specifications or the API.
"""
