"""Reads what a trainer prints: the lines of a console log, and the progress bars among them."""
