"""The page that compares runs, and its callbacks."""
