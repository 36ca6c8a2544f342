"""Forks of a reference run: its treatments, its held-out contexts, and the training of one fork after another."""
