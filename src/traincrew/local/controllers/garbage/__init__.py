"""Cascading deletion: dependents of deleted owners, and the content of deleted namespaces."""
