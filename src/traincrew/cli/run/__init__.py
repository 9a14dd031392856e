"""Implements `traincrew run`: create objects, watch their jobs, follow logs, save results.

`session` is the run from start to end; every other module is one part of it. `outcome`
decides the exit code.
"""
