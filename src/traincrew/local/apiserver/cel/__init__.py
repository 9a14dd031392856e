"""CEL: ``x-kubernetes-validations`` of custom resources, and conditions of webhooks.

Expressions are compiled and checked against a schema, and evaluated on documents. The package knows
no kinds; what a rule refuses becomes a cause (`values.causes`).
"""

from .rules import CelRules, compilation_fault, compile_rules, evaluate

__all__ = ["CelRules", "compilation_fault", "compile_rules", "evaluate"]
