"""PersistentVolumeClaims and PersistentVolumes: their binding, and their protection while in use.

`binding` and `usage` decide and are pure; the other modules read caches and write.
"""
