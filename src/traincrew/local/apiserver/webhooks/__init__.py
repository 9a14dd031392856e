"""Admission webhooks: HTTPS servers that mutate, allow or deny what is written.

`http` calls them between two attempts of a verb, with the verb's `Proposal`
(`requests.proposals`). This package stores nothing.
"""

from .asking import Webhooks

__all__ = ["Webhooks"]
