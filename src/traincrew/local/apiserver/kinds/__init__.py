"""The built-in kinds: a folder for each API group, a file with a `Strategy` for each kind."""
