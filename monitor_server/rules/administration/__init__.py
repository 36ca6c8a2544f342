"""Who makes, changes and deletes rules: people one at a time, files as sets."""
