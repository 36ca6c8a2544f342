"""The version of a database's schema, and how it is brought to the newest."""
