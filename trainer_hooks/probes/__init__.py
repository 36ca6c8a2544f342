"""Paired re-scoring: the same contexts scored before and after an update."""
