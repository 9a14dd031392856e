"""Tables as ``kubectl get`` prints them: columns of every kind and cells of its objects.

`reads` calls it for every object of a table. It takes a document and returns cells.
"""

from .table import columns, row

__all__ = ["columns", "row"]
