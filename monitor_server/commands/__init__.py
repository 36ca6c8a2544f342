"""The `rlvitals` command line: one file for each subcommand, in ``collector/`` or in ``logs/``."""
