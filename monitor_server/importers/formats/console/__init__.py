"""Reads the output of a trainer: the lines of a console log, and the progress bars among them."""
