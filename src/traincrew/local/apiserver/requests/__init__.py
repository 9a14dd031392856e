"""API requests, parsed: path, query, headers and body of one request.

`http` makes a `Call` of every request, which then passes through reads, writes and webhooks. This
package holds values only: it sends no response and has no access to the storage.
"""

from .call import (
    Call,
    DeleteOptions,
    Target,
    WriteOptions,
    delete_options,
    is_true,
    parse_path,
    split_path,
    write_options,
)

__all__ = [
    "Call",
    "DeleteOptions",
    "Target",
    "WriteOptions",
    "delete_options",
    "is_true",
    "parse_path",
    "split_path",
    "write_options",
]
