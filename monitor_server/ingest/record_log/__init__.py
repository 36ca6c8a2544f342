"""The log of a run: the new records of each batch are appended to it, once."""
