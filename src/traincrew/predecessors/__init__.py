"""For users of the controllers that this operator replaces, none of which is maintained any more.

Their names and their charts (``manifests``), and what is left of them in a cluster (``orphans``,
``verification``). Only three commands import this package, `manifests`, `orphans` and `verify`, so
that it can be dropped as a whole.
"""
