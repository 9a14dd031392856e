"""The view model of a job: its roles, pods, conditions and warnings as plain frozen data.

Pure: API objects in, structs out. A terminal draws them, and so may a page; nothing here knows
either, nor requests, clocks or colours (docs/design/viewing.md).
"""
