"""One container of a pod: image, configuration, start, probes, termination and restart.

Pods create `Container`s and read their records. A container sees its pod only through `PodHandle`;
processes and files of an instance belong to `runtime`.
"""
