"""What the kinds of training-operator v1 have in common: fields, checks, and who serves them."""
