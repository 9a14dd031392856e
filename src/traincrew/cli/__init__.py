"""The `traincrew` command line.

`main` imports a command from `commands` when it is called; `run` implements `traincrew run`,
`cluster` starts and finds embedded clusters, `manifest` reads manifests, `display` renders output.
"""
