"""CEL: ``x-kubernetes-validations`` of custom resources, and conditions of webhooks.

Expressions are parsed, checked against a schema, and compiled to closures that evaluate them on
documents within a budget; no text or object can take long, or more memory than its share. The
package knows no kinds; what a rule refuses becomes a cause (`values.causes`).
"""

from .rules import CelRules
from .schemas import compilation_fault, compile_rules, evaluate

__all__ = ["CelRules", "compilation_fault", "compile_rules", "evaluate"]
