"""Paired re-scoring: the same tokens scored before and after an update."""
