"""Finds out how the training was launched and configured, and when it forks or ends; keeps signals off our threads."""
