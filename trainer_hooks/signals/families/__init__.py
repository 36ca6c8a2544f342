"""The signals, one family a file."""
