"""Subcommands that read the logs of finished or running trainings."""
