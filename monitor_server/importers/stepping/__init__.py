"""Finds the step of each row of a log: the one that it has, and the one in the whole run."""
