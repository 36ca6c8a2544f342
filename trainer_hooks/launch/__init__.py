"""Finds out how the training process was launched and with which configuration, and when it forks or ends."""
