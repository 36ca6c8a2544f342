"""Subcommands that run a collector, or connect to one over HTTP."""
