"""Webhooks: HTTPS servers that mutate, allow or deny what is written, or convert custom resources.

`http` calls them between two attempts of a verb: admission webhooks with the verb's `Proposal`
(`requests.proposals`), conversion webhooks with its `ConversionNeeded` (`requests.conversions`).
This package stores nothing.
"""

from .asking import Webhooks
from .conversion import Converter

__all__ = ["Converter", "Webhooks"]
