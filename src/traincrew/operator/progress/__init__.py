"""The endpoint for reports of training programs: docs/design/reported-progress.md."""

from traincrew.operator.progress.reports import Reports, Target
from traincrew.operator.progress.service import ProgressService

__all__ = ["ProgressService", "Reports", "Target"]
