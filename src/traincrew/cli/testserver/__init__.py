"""The API server for tests of other programs, and the programs that envtest starts.

`kubeapiserver` and `etcd` understand the flags of the programs whose names they have; `assets`
writes a directory of scripts that start them. They are small: envtest runs each of them twice.
"""
