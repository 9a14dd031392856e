"""Compressed tar archives of strangers -> directories in the format of overlayfs."""

from traincrew.local.images.oci.layers.limits import Limits
from traincrew.local.images.oci.layers.records import Kind, Record, final_records, read_records
from traincrew.local.images.oci.layers.tree import Owners
from traincrew.local.images.oci.layers.unpacking import Unpacked, unpack

__all__ = [
    "Kind",
    "Limits",
    "Owners",
    "Record",
    "Unpacked",
    "final_records",
    "read_records",
    "unpack",
]
