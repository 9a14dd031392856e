"""What kinds of several API groups share."""
