"""Finds out how the training process was launched, and when it forks or ends."""
