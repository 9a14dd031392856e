"""Code that the plans of all kinds share."""
