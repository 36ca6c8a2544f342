"""The log of a run: what is new of a batch is appended to it, once."""
