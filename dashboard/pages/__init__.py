"""One page a file: layout and its callbacks."""
