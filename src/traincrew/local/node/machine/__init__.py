"""This machine and the share of it that virtual nodes offer: capabilities, GPUs, directories.

All parts of the node use it; `traincrew doctor` shows the capabilities. It knows no pods, no API
and no processes except those that probe the capabilities.
"""
