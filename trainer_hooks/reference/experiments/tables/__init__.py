"""Markdown tables of recorded runs, one kind of table a file."""
