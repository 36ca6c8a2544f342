"""The page of rules, and its callbacks."""
