"""Embedded clusters for the commands.

`embedded` runs one in this process; `daemon` and `server` run one in a background process, with its
files in a directory of the user.
"""
