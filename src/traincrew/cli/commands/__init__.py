"""The commands: one module each, imported when the command is called.

A command checks its options, calls the implementation, and prints; `traincrew.cli.main` looks up
`NAME_command` in the module of that name.
"""
