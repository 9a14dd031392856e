"""Explains in plain words why a job is in its state: what it waits for, or why it failed.

`explain` is pure: facts in, explanation out. Each module knows one kind of trouble.
"""

from traincrew.cli.jobview.why.choosing import explain
from traincrew.cli.jobview.why.facts import Explanation, Facts

__all__ = ["Explanation", "Facts", "explain"]
