"""The fleet page, and its callbacks."""
