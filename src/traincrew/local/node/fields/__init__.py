"""Values that a pod's specification refers to: fields, resources, ConfigMaps, variables. Pure.

Callers pass the specification and the objects fetched for it. Nothing here reads the API, the disk
or the clock.
"""
