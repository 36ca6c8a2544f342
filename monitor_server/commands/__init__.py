"""The `rlvitals` command line: one subcommand a file, in ``collector/`` or in ``logs/``."""
