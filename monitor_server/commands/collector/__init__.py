"""Subcommands that run a collector or ask one over HTTP."""
