"""JSON patch, merge patch, strategic merge patch; server-side apply is in `apply`.

`writes` applies them to a stored object, `webhooks` to one under admission. They take a patch and a
document and return a new document; validation happens elsewhere.
"""

from .json import FailedTestError, PatchError, json_patch, merge_patch
from .strategic import strategic_merge

__all__ = ["FailedTestError", "PatchError", "json_patch", "merge_patch", "strategic_merge"]
