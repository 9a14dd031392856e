"""Installing packages into environments: uv, its settings, and what it prints."""
