"""Finds out how the training process was launched."""
