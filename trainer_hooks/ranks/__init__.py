"""Lets the ranks of a training agree with each other without adding a collective."""
