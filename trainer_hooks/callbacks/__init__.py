"""Adapters for training frameworks, one a file or a folder: each passes a trainer's numbers to `Monitor.log_step`."""
