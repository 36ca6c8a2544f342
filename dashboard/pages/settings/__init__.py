"""The page of settings, and its callbacks."""
